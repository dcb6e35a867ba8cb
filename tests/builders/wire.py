"""A transport that keeps what it sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tests.builders.tree import Tree


class Wire:
    """An agent's connection to a zone of a tree."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._client = tree.nodes[name].client("compute")

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        query = "?" + urlencode(params) if params else ""
        return self._client.call(method, path + query, body, headers=headers).json
