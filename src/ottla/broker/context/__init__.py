"""What every room may know of the broker: who it is, which settings are in force, what time it is.

- `broker_state`: this broker's id, broker epoch, lease, and whether it runs or is fenced.
- `dynamic_config`: the settings in force, which clients can change while the broker runs.
- `clock`: wall-clock and monotonic time.
- `broker_context`: these three and the metadata image, as one value.
- `metadata_writer`: the interface by which rooms below `metadata` commit metadata changes.

Rules of the room:
1. Facts and interfaces only. Nothing here calls another room, and it depends on none.
2. There is one metadata image (`ottla.metadata.image.Image`) as long as a broker runs. It is
   changed in place, by `metadata.metadata_loader` alone, so that every room can hold it.
"""
