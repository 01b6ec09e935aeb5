"""Read the MCP servers of other tools' files as entries of ours. Pure, but for finding the files."""
