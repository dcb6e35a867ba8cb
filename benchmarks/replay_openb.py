"""Replay a recorded GPU cluster (the "openb" trace) through a tree of real zones.

    benchmarks/replay_openb.py --nodes nodes.csv --pods pods.csv --tree 1,3,9

Progress goes to standard error; it ends with one line of JSON.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.openb.main import main

if __name__ == "__main__":
    main()
