"""How Sphinx makes these pages: Markdown by MyST, warnings are errors in .ci/run."""

from __future__ import annotations

import zonesched

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
