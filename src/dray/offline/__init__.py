"""What is done with the data directory of a manager that is stopped: check, inspect, restore, move.

The command line and the embedded door ask here. No running manager imports any of it.
"""
