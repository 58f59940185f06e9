"""Requests of clients: each module answers a few kinds; only `dispatch` and the turn call it.

Other rooms use these modules; the others are private to this room:

    admin             queues, quotas and the manager
    sending           sends
    receiving         receives, and the messages that they hold
    moving            moves between queues
    large_messages    large messages, by fragment
    uploads           large messages that come in parts
    large_moving      large messages that move aside as a whole
    ranges            reads by position
    backup            a backup, and its records
    waiting           receives that wait for a message
"""
