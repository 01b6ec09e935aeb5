"""What MCP says: frames, methods, versions, errors. Pure."""
