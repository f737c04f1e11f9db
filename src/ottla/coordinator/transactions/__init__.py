"""Transactions: one shard of `__transaction_state`."""
