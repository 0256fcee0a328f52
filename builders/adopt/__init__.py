"""Adopts the classes and images of an existing copy, or of the authors' lists."""
