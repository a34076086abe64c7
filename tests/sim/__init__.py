"""Whole clusters of replication machines in one process, over a simulated network, disk, clock and store, from one seed."""
