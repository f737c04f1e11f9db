"""The exception of everything that runs servers and clients: tests, compat, faults and bench."""


class HarnessError(Exception):
    """A run cannot continue: a missing program, a server that died, a lost message.

    Its message is the line that a person reads.
    """
