"""A real browser for tests and pictures: Chromium of the system, driven by Playwright, judged by axe-core.

Playwright is in a folder of its own that is kept for the next run: it is large, and only a browser needs it.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kept_packages import kept_folder, pip_install

PINNED = Path(__file__).parents[1] / "processes" / "browser.txt"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """The path of the system's Chromium. Skips the test without one, unless servers are required."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None and os.environ.get("ZONESCHED_TEST_SERVERS") != "required":
        pytest.skip("Chromium is not installed; as root on Debian, .ci/services.sh installs it")
    assert found is not None, "Chromium is required and not installed"
    return found


def python_folder() -> Path:
    """The folder with Playwright and axe-core. Skips the test where no index is in reach."""
    return kept_folder("browser", PINNED, _install)


def _install(folder: Path) -> None:
    pip_install(sys.executable, PINNED, "Playwright", ["--target", str(folder)])


@contextmanager
def a_browser() -> Iterator[Any]:
    """A running browser, as Playwright's `Browser`."""
    program, folder = chromium(), python_folder()
    # Last, so that the packages of the environment come first.
    sys.path.append(str(folder))
    try:
        playwright = importlib.import_module("playwright.sync_api")
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=list(FLAGS))
            try:
                yield browser
            finally:
                browser.close()
    finally:
        sys.path.remove(str(folder))


def faults_of_access(page: Any) -> list[str]:
    """Return the serious and critical findings of axe-core on a page, with the first place of each.

    The script is given to the page's own debugger, past the page's policy.
    """
    script = (python_folder() / "axe_playwright_python" / "axe.min.js").read_text()
    page.evaluate(script)
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{one['id']} ({one['impact']}): {first['html'][:200]} {first.get('failureSummary', '')}"
        for one in found
        for first in one["nodes"][:1]
        if one["impact"] in ("serious", "critical")
    ]
