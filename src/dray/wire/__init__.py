"""Bytes to frames and frames to bytes. Knows nothing of sockets, files or what a frame leads to."""
