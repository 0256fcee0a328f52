"""Talks to the Hub: repositories, retries, and places such as hf://datasets/ORG/NAME."""
