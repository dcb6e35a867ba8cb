"""`zonesched-zone`, and `python -m zonesched.serving`: serve one zone.

The modules are imported without garbage collection: nothing of them is garbage, and to look for some takes a
sixth of a zone's start. A signal that comes meanwhile is kept: `systemctl reload` right after a start would
end the zone, and systemd does not start again what SIGHUP has ended.
"""

from __future__ import annotations

import gc

from zonesched.serving.early_signals import EarlySignals

EARLY_SIGNALS = EarlySignals()

gc.disable()

from zonesched.serving import run_zone  # noqa: E402

# What is imported stays: later collections need not look at it either.
gc.freeze()
gc.enable()


def main() -> None:
    """Serve one zone until SIGTERM."""
    run_zone.main(prog_name="zonesched-zone", obj=EARLY_SIGNALS)


if __name__ == "__main__":
    main()
