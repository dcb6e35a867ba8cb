"""Time boots through a tree of real zones, each client booting again as soon as its last boot is claimed.

    benchmarks/boot.py --tree 1 --hosts 10000 --instances 1 --clients 8 --database sqlite

Progress goes to standard error; it ends with one line of JSON.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.boot_times.main import main

if __name__ == "__main__":
    main()
