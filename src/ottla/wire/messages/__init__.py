"""One module for each Kafka API, written by tools/generate_messages.py."""
