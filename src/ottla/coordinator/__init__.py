"""Consumer groups, committed offsets and transactions as pure state machines."""
