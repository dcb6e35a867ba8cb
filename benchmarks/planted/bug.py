"""A planted bug: a line of the package, the line in its place, and the tests that should fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bug:
    """`right`, which stands once in the file `path` (from the checkout), becomes `wrong`.

    `breaks` says what the zone does wrong then; `tests` are files of tests one of which should fail.
    """

    name: str
    breaks: str
    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def plant(self, checkout: Path) -> None:
        """Put the bug into a checkout. Raises ValueError where the line is not there once."""
        file = checkout / self.path
        source = file.read_text()
        found = source.count(self.right)
        if found != 1:
            raise ValueError(f"{self.name}: its line stands {found} times in {self.path}, not once")
        file.write_text(source.replace(self.right, self.wrong))

    def remove(self, checkout: Path, original: Path) -> None:
        """Put the file back as it is in the original checkout."""
        (checkout / self.path).write_text((original / self.path).read_text())
