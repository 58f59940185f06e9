"""The client: what programs hold in their hands. It speaks the wire, like anyone else.

From below: `session` decides (no input or output), `connection` reads and writes one socket for
many threads, `link` makes connections anew, then the faces: `manager`, `queue`, `transaction`,
`large`.
"""
