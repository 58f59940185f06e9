"""Arguments of calls, checked, and the messages made of them."""
