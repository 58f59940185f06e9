"""The classes of `dray`: each call blocks its thread until the awaited operation is done.

Programs of threads hold these. Each module has its counterpart of the same name in `awaited`.
"""
