"""The readers under test. A module here has a tuple `TARGETS`; nothing else is needed to have them run."""
