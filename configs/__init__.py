"""Text in, frozen values out."""
