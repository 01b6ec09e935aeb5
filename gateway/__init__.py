"""The middle of the gateway: what is offered, and where a frame goes."""

__version__ = "0.1.0"
