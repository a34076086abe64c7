"""The cluster: what its nodes agree on, and who belongs to it."""
