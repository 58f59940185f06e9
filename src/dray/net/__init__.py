"""What the daemon and clients share about connections: TLS, tunnels and send buffers."""
