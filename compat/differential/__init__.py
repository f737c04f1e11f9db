"""Seeded random requests to Ottla and to Apache Kafka, step by step, replies compared."""
