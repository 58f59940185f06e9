"""Connections to queue managers: dialling, requests and answers, and connecting again.

`Session` decides what a frame means and does no input or output. `Connection` reads and writes one
socket for many callers. A `Runtime` waits: `threads` blocks, `loops` awaits. `Link` gives a
connection that is alive.
"""
