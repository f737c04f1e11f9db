"""The server-side assignors of consumer groups, by name."""

from ottla.coordinator.assignment import Assignor
from ottla.coordinator.range_assignor import assign_ranges
from ottla.coordinator.uniform_assignor import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
