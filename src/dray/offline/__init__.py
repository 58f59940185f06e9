"""Tools for the data directory of a stopped manager: check, inspect, restore, move.

The command line and the embedded door ask here. No running manager imports any of it.
"""
