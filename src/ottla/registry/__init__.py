"""The schema registry: Confluent's REST interface over a topic of schemas.

A process of its own that reaches the cluster over the Kafka protocol alone, so it serves Apache
Kafka as well. `ottla registry` runs it.

| module | what it is |
|---|---|
| `errors`, `model`, `names`, `records` | values: error codes, schemas, subject names, records |
| `state`, `decisions` | pure: what is registered, and what a request changes |
| `languages/` | Avro, JSON Schema and Protobuf, in a child process |
| `store`, `election` | the topic `_schemas`, and the group that elects the writer |
| `service`, `forwarding` | the parts put together: reads, writes, requests for the writer |
| `rest`, `replies`, `security` | HTTP |
| `run` | the process |
"""
