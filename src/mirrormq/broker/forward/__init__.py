"""Forwarding: a queue lives on one node, and clients of every other node use it as if it were theirs."""
