"""Hypothesis for this folder: a loaded machine is slow, and slow is not wrong."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("wire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wire")
