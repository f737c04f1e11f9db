"""Metadata: the store's session, the image, this broker's registration, and changes of topics.

The store and the decisions on the image are in `ottla.metadata`.

- `metadata_loader`: the session with the store; keeps the image; commits changes
  (MetadataLoader).
- `metadata_publisher`: applies a change of the image to the other rooms (MetadataPublisher).
- `broker_lifecycle`, `fencing`: registration, lease, controlled shutdown; noticing that it was
  fenced.
- `controller`, `leader_balancer`: the controller role; preferred leaders.
- `topics`, `reassigning`: changes that clients ask for.
- `auto_topic_creation`: topics created because a client named them (AutoTopicCreation).
- `producer_id_manager`: blocks of producer ids (ProducerIdManager).
- `metadata_response_cache`: large Metadata responses, kept as bytes.
- `stores`, `cluster_id`, `own_address`: which store; that folder and store belong together; which
  host to advertise.
- `authorized`, `config_resources`: small tables for API handlers.

Rules of the room:
1. Nothing changes topics but a commit to the store. Changes come back through the watch and are
   applied in order, also our own.
2. A request that changed the store is answered when its change is applied here.

It depends on every room but `audit`, because a change of metadata concerns all of them.
"""
