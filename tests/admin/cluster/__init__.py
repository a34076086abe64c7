"""Views of a cluster of several nodes."""
