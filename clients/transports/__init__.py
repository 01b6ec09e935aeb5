"""Bytes to frames and back, one module per way of reaching a server."""
