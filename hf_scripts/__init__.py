"""A release folder and the Hub."""
