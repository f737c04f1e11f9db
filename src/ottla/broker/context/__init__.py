"""What every room may know of the broker: who it is, which settings are in force, what time it is.

Modules:
- `broker_state`: this broker's id, broker epoch, lease, and whether it runs or is fenced.
- `dynamic_config`: the settings in force, which clients can change while the broker runs.
- `clock`: wall-clock and monotonic time.
- `metadata_writer`: the interface by which the rooms below `metadata` commit metadata changes.

The fifth thing that every room may know is the metadata image (`ottla.metadata.image.Image`): there
is one for the life of a broker, changed in place by `metadata.metadata_loader` alone.

This room depends on no other room.
"""
