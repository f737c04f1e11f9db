"""Bytes to values and back, and nothing else: framing, headers, messages, batch headers, errors."""
