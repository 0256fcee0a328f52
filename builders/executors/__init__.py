"""Runs tasks: the interface of executors (`base`), on this machine's cores (`local`) or a cluster's (`ray`)."""
