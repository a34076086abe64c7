"""Tests of the replication machine, one rule at a time; whole clusters are in tests/sim."""
