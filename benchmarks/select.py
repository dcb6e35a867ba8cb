"""Selects of one zone in process: benchmarks/select.py --hosts 100000 --instances 1 1000 (see --help)."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.many_hosts.select_times import main

if __name__ == "__main__":
    main()
