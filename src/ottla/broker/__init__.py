"""One broker without its sockets. Joins the pure packages to the disk, the clock and the loop.

It has nine rooms. A room depends on those below it and on none above; import-linter holds that.

- `audit`: counts what is stored, for the audit topic.
- `metadata`: the store's session, the image, registration, the controller role (MetadataLoader,
  MetadataPublisher, BrokerLifecycleManager, AutoTopicCreation).
- `coordinators`: the runtime of group and transaction coordinators (GroupCoordinator,
  TransactionCoordinator).
- `replication`: which replicas lead and follow, what followers copy (ReplicaManager,
  ReplicaFetcher, AlterPartitionManager).
- `logs`: logs on disk: loading, flushes, checkpoints, retention, compaction (LogManager,
  LogLoader, LogCleaner).
- `replicas`: the partitions, and the requests that read and wait on them (Partition,
  DelayedFetch, DelayedProduce, FetchSession).
- `scheduling`: timers, turns, background tasks, flushes in threads.
- `context`: what every room may know: id, epoch, lease, settings, time.
- `metrics`: counters, and how they are shown (BrokerTopicMetrics).

`broker_server` builds the rooms and joins them. Nothing else knows all of them, apart from the API
handlers, which are given the `BrokerServer`.
"""
