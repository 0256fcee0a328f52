"""The checks behind `verify`: manifest, rows, values, images, and how they fit together."""
