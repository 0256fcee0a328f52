"""Runs tasks: the contract that every executor keeps (`base`), and the executor on this machine's cores (`local`)."""
