"""The stores that keep the contract of `metadata/store.py`: SQLite and ZooKeeper."""
