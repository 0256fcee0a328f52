"""Classes of the source datasets, the papers' rules about them, and WordNet 3.0's nouns, on which the rules rest."""

import unknown_detection.starting  # noqa: F401  from here on, Ctrl-C is no traceback
