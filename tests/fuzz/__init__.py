"""Fuzzing of the broker: mutated frame sequences against the machine in memory, and against a real server process."""
