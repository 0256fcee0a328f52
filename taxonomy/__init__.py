"""The classes and the rules about them: WordNet 3.0's nouns as arrays, similarity, papers' rules, class tables."""

from unknown_detection.terminal import interrupts

interrupts.watch_imports(__name__)
