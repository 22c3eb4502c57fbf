"""Settings of every test."""

from hypothesis import settings

# a slow machine must not fail a test
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
