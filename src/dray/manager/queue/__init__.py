"""One queue: its packed entries in order, who uses it, and how many bytes count against its quota.

The state changes queues as facts say. The rooms above read them, and hold or release entries.
"""
