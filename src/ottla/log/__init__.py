"""One partition's log on disk, in Kafka's own file formats. Synchronous: the broker schedules."""
