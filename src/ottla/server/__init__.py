"""Connections: sockets, framing, flow control, sendfile."""
