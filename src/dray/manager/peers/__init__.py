"""The conversation between managers: links, streams, confirmations, repairs, identity.

The turn hands on the frames of other managers. Requests ask here where a queue of another manager
is reached. The rules of delivery are in `dray.delivery`; this room carries them out.

Other rooms use these modules; the others are private to this room:

    links               the links to other managers, and the streams on them
    peers               who answers at an address, and who calls
    confirmations       what became of messages, told and heard
    repairs             holes in large messages, at both ends
    possession          how a manager proves that it has the key of its id
"""
