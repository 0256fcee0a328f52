"""The upstream datasets, one module each."""
