"""Replicas on this broker and how they are read: partitions, delayed requests, fetch sessions."""
