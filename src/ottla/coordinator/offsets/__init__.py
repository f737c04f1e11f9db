"""Committed offsets of all kinds of groups."""
