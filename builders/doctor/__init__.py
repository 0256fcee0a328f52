"""Says whether a copy of a dataset is the dataset, and how the images of two copies differ."""
