"""The transition graph of FACETS: which classes' images are taken for which classes."""
