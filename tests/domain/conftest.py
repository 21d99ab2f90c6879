"""Speed is for benchmarks: the examples of a property have no time limit of their own."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
