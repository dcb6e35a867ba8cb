"""Kill, stop, cut and restart parts of a tree of real zones under load; in the end nothing may be wrong.

    benchmarks/chaos.py --faults 300 --seed 1 --database sqlite

Progress goes to standard error; it ends with one line of JSON.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.chaos_runs.main import main

if __name__ == "__main__":
    main()
