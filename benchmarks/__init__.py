"""Side by side: the gateway against a direct connection, a bare relay, and its peers."""
