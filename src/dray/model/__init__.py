"""The nouns: ids, names, messages, queues and every bound, with no more than what checks them."""
