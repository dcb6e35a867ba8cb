"""Everything that an attacker knows, and all that it must never read; passed to its process as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scene:
    """The tree as attackers see it.

    `urls`: of the zones by name (root, middle, leaf), without the prefix of the version.
    `logins`: name and secret by role. `forbidden`: texts by role that no answer to it may contain.
    `others`: uuids and names that belong to other callers, by what they are.
    """

    urls: Mapping[str, str]
    child_url: str
    ca_file: str
    logins: Mapping[str, Sequence[str]]
    forbidden: Mapping[str, Sequence[str]]
    others: Mapping[str, str]

    def write(self, path: Path) -> None:
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Scene:
        return cls(**json.loads(path.read_text()))
