"""Templates of the dataset card."""
