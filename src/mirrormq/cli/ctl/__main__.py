"""`python -m mirrormq.cli.ctl`."""

from __future__ import annotations

from mirrormq.cli.ctl.main import main

main()
