"""Entry point of the installed command."""

from __future__ import annotations

import importlib
import signal


def main() -> None:
    """Import the command and run it. Ctrl-C ends it without a traceback meanwhile, too."""
    # The import takes longer than many a command. A shell ignores the signal for jobs in the background.
    is_awaited = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_awaited:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = importlib.import_module("zonesched.cli.main")
    if is_awaited:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.main()
