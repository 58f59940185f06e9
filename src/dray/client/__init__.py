"""The client: what programs hold in their hands. It speaks the wire, like anyone else.

From above: `blocking` and `awaited` are the two faces of one set of operations, `transfer` moves
files between two programs, `files` reads and writes payloads, `connections` keeps up the
connection to a queue manager, `calls` checks what programs give.
"""
