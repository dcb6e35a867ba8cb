"""Attack a tree of real zones in many ways, and measure whether anybody else pays for it.

    benchmarks/hostile.py --seconds 5 --database sqlite
    benchmarks/hostile.py --only member-query-bomb parent-replays

Progress goes to standard error; it ends with one line of JSON.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.attackers.main import main

if __name__ == "__main__":
    main()
