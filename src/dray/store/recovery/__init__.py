"""How a store comes back: what is found, which files go together, the log replayed."""
