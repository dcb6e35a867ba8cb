"""Number of connections that a zone takes, by the files that it may open."""

from __future__ import annotations

import resource

import pytest

from zonesched.serving import open_files

MOST = 2000


@pytest.mark.parametrize(
    ("soft", "hard", "raised_to", "taken"),
    [
        (1024, 1 << 20, 2 * MOST, MOST),
        (1024, resource.RLIM_INFINITY, 2 * MOST, MOST),
        (1024, 1024, 1024, 512),
        (256, 1024, 1024, 512),
        (1 << 16, 1 << 16, None, MOST),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, MOST),
    ],
)
def test_half_of_the_files_are_for_connections_once_the_limit_is_raised(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised_to: int | None, taken: int
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))

    assert open_files.connections(MOST) == taken
    assert limits == ([] if raised_to is None else [(raised_to, hard)])
