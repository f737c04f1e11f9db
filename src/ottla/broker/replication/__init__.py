"""Replication: who leads and who follows here, what leaders count, and what followers copy."""
