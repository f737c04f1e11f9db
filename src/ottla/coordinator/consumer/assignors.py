"""The server-side assignors of consumer groups, by name."""

from ottla.coordinator.consumer.assignment import Assignor
from ottla.coordinator.consumer.range_assignor import assign_ranges
from ottla.coordinator.consumer.uniform_assignor import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
