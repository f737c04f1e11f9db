"""The share coordinator of one partition of `__share_group_state` (KIP-932).

| module | what it is |
|---|---|
| `shard` | the state of share partitions: initialize, read, write, delete, summarize |
| `state` | one share partition's state, and how updates change it |
| `batches` | how state batches are combined |
| `records` | ShareSnapshot and ShareUpdate, in Kafka's formats |

A share partition is a partition of a topic as one share group reads it. Its key is
`group:topicId:partition`, and names the partition of `__share_group_state` that its state is in.
"""
