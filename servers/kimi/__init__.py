"""Kimi's four tools: a complete MCP server of its own."""
