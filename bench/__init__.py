"""Side-by-side measurements of Ottla and Apache Kafka: `python -m bench --help`."""
