"""The two ways a command ends early: it was asked for something there is not, or what it needs is not to be had."""


class Usage(Exception):
    """Said in one line on stderr; exit code 2."""


class Failed(Exception):
    """Said in one line on stderr; exit code 1."""
