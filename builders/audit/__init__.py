"""Audits of a finished release: `python -m builders.audit`."""
