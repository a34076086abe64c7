"""Exchanges, queues, consumers, channels and connections as state machines without I/O."""
