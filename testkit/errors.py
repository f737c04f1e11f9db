"""The one exception of the bench: its message is the line that a person reads."""


class BenchError(Exception):
    """Something that ends a measurement: a missing program, a server that died, a lost message."""
