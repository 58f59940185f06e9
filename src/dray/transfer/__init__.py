"""File transfer between two live programs: who may have it, how much is under way, what is next.

The cores decide and never wait; the client's `transfer` modules move the bytes. The protocol, its
state tables and its failures are told in docs/explanation/transfer.md.
"""
