"""The evaluation's demo: a small release of real digits, a model trained on it, and all steps in a row."""
