"""Runs tasks: the interface of executors (`base`), and the executor on this machine's cores (`local`)."""
