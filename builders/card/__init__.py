"""What describes a release to its readers: the dataset card, Croissant metadata, and pictures of sample images."""
