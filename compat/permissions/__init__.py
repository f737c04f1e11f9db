"""Every API with and without rights, on Ottla and on Apache Kafka: the replies must be equal."""
