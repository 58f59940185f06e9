"""What managers say to each other: links, streams, confirmations, repairs, and who they are.

The turn hands on the frames of other managers. Requests ask here where a queue of another manager
is reached. The rules of delivery are in `dray.delivery`; this room carries them out.
"""
