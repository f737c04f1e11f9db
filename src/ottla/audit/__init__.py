"""Counts of messages by topic, time window and tier, and the check that nothing was lost between.

Every tier (producers, brokers, consumers, Spark's sources and sinks) counts the records that pass
it by topic, partition and window of the records' timestamps, and writes the counts as events into
an audit topic. `check` compares them. The idea is the audit of the Kafka paper of 2011.

`events`, `counts`, `tally`, `matching`, `chains` and `check` are pure. `scan` reads log files, in a
child of the broker. `confluent` and `aiokafka` wrap those clients and report with `reporter`'s
help.
"""
