"""Open transactions, and how they end: in one phase or in two, or aborted.

Requests gather here. The commit itself is one fact, made in `dray.manager.change`.

Other rooms use these modules; the others are private to this room:

    transactions        the table of open ones; commit and abort
    open_transaction    one of them: what it has gathered
    prepared            the second phase
    batches             commits of many staged transactions
    mixing              refuses plain and large messages in one queue
    reservations        room set aside for what will come
"""
