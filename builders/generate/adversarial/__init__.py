"""Adversarial images: models and their weights, attacks on the models, and a check of what is stored."""
