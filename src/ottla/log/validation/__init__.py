"""Checks of a producer's batch, and what changes in it before it is appended."""
