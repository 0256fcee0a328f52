"""Talks to the Hub: repositories, retries, and addresses such as hf://datasets/ORG/NAME."""
