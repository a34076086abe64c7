"""Random faults on real nodes: `python -m chaos.run`, see `docs/internals/chaos.md`."""
