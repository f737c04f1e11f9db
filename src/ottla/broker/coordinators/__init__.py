"""The coordinators' runtime: pure shards joined to their logs, timers and clients."""
