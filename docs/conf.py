"""How Sphinx makes these pages: Markdown by MyST, warnings are errors in .ci/run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import zonesched

sys.path.insert(0, str(Path(__file__).parent))

import plugin_pages

project = "zonesched"
author = "the zonesched authors"
release = version = zonesched.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "1100px"}


def setup(app: Any) -> None:
    """Have the pages of the built-in plugins made before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: plugin_pages.write(Path(app.srcdir) / plugin_pages.FOLDER))
