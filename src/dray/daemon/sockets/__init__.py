"""Sockets of the daemon: callers and links, frames that come in, bytes that go out."""
