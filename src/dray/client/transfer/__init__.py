"""File transfers, as programs run them: what moves the bytes that the cores decide about.

From below: `reference` and `state` (what is written of an offer, in a queue and on disk), `source`
and `target` (the two files), `frame_socket`, `board` (what is told of how it goes),
`engine` (one thread for each transfer), `offering` and `accepting` (what it does at either end).
"""
