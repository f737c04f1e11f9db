"""A cluster in one thread: real decisions over simulated logs, network, store and time."""
