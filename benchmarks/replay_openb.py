"""Replay a recorded GPU cluster (the "openb" trace) through a tree of real zones.

    benchmarks/replay_openb.py --nodes nodes.csv --pods pods.csv --tree 1,3,9

Progress goes to standard error; it ends with one line of JSON.
"""

from openb.main import main

if __name__ == "__main__":
    main()
