"""Charts of benchmarks: benchmarks/plot.py docs/benchmarks/select.jsonl docs/benchmarks (see --help)."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.charts.main import main

if __name__ == "__main__":
    main()
