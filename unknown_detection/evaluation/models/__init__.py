"""Models, their weights and layers, the preprocessing of their input, and the features they give."""
