"""`mirrormq cluster`: several nodes on this machine that are one cluster, for trying things out and for tests."""
