"""The replication machine: see step.py for its rules."""
