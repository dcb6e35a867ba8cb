"""Let writers of several processes race for the free slots of a zone's hosts; exactly as many may win.

    benchmarks/race.py --database postgresql --slots 1000 4000

Ends with one line of JSON for each number of slots.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.races.main import main

if __name__ == "__main__":
    main()
