"""The kernel in Python: used where the native one was not built, and its measure in tests."""
