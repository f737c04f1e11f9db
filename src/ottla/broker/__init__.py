"""Joins the pure parts to disk and loop: partitions, parked requests, background work."""
