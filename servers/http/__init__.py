"""The gateway's endpoint over HTTP: Streamable HTTP of both eras at one address, and the older HTTP+SSE beside it."""
