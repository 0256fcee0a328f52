"""The papers' rules for which classes are in and which are out."""
