"""The checks behind `verify`: files, rows, images, and the consistency between them."""
