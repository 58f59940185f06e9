"""One queue: its entries in order, who uses it, and how many bytes count against its quota.

The state changes queues as facts say. The rooms above read them, and hold or release entries.

Other rooms use these modules; the others are private to this room:

    queues            a queue, and the table of all
    part_records      parts of large messages, read from their records
    costs             how many bytes of the log a change takes at the most
    accounts          whose quota counts them
    system            the queues that the manager itself keeps
    lookups           positions by message id or correlation id
    arrival_routes    by which streams open transactions come
"""
