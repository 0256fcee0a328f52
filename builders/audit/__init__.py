"""Audits a finished release: `python -m builders.audit`."""
