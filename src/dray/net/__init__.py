"""Connections of daemon and clients: TLS, tunnels and send buffers."""
