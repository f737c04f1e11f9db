"""Cluster state: the store contract and its stores, the metadata image, decisions on it."""
