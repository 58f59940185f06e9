"""Every operation of a client, written once, to be awaited.

`dray.aio` gives these classes as they are; the modules of the same names in
`blocking` make blocking faces of them.
"""
