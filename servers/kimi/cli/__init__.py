"""Kimi through an installed CLI of either generation: find it, run it, judge how it ended."""
