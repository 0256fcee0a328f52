"""What whole builds cost: on a disk, in a store, on a cluster, and again for a new version."""
