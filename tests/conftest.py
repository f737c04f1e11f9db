"""For all tests: property tests are judged by what they find, not by how busy the machine is."""

from hypothesis import settings

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
