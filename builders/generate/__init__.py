"""Generates images that do not exist upstream: the contract of generators, and what runs them."""
