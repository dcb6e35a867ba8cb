"""`python -m zonesched.serving`: serve one zone, as `zonesched-zone` does.

The modules are imported without garbage collection: nothing of them is garbage, and to look for some takes a
sixth of a zone's start.
"""

from __future__ import annotations

import gc

gc.disable()

from zonesched.serving.run_zone import main  # noqa: E402

# What is imported stays: later collections need not look at it either.
gc.freeze()
gc.enable()

if __name__ == "__main__":
    main(prog_name="zonesched-zone")
