"""Every operation of a client, written once, to be awaited.

`dray.aio` gives these classes as they are; the modules of the same names one level up make
blocking faces of them.
"""
