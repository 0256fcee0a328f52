"""Adversarial images: models with their weights, attacks on them, and the judgement of what is stored."""
