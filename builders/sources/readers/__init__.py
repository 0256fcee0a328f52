"""Readers of the containers and layouts in which datasets are distributed."""
