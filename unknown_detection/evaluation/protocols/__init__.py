"""The papers' protocols: which rows are compared, and by which metrics."""
