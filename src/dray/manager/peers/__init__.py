"""The conversation between managers: links, streams, confirmations, repairs, identity.

The turn hands on the frames of other managers. Requests ask here where a queue of another manager
is reached. The rules of delivery are in `dray.delivery`; this room carries them out.
"""
