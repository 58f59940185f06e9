"""HTTP itself, for `/v1` and the pages alike: the server, its bounds, and bodies on their way."""
