"""What a client may ask: each module answers a few kinds of requests; only the turn calls it."""
