"""The upstream side: keeps every configured server reachable."""
