"""Consumer groups (KIP-848): the coordinator divides the partitions."""
