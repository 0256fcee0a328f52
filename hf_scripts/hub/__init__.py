"""Talking to the Hub: repositories, retries, downloads."""
