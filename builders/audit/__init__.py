"""Audits a finished release: `python -m builders.commands.audit`."""
