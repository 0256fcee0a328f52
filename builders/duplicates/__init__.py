"""Finds duplicate and near-duplicate images."""
