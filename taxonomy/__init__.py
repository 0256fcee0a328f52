"""The classes and the rules about them: WordNet 3.0's nouns as arrays, similarity, papers' rules, class tables."""

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback
