"""Models and what they take and give: weights, preprocessing, layers, batches, features."""
