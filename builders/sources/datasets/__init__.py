"""The upstream datasets, one a file; `builders.sources.titles` has their keys."""
