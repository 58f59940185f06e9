"""Benchmarks: paired in one run with this machine's own limits, each in a module of its own.

`python -m benches` runs all of them, `python -m benches small` one. Every figure is the median of
a few rounds, and every round measures the limit beside the thing, because a machine's own speed
moves.
Queue managers and clients are processes of their own, as in real use.
"""
