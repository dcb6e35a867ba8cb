"""Claim two million instances over ten regions: benchmarks/c2m.py --instances 100000 (see --help)."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.million.main import main

if __name__ == "__main__":
    main()
