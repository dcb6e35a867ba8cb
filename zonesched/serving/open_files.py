"""Files that the serving process may open, of which connections must leave enough for its own work."""

from __future__ import annotations

import errno
import resource

OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of an accept for which this process or its machine has no room."""


def connections(most: int) -> int:
    """Return how many connections to take: at most `most`, and half of the files that may be open.

    The other half is for the database, for calls to children and for the process itself. Raises the limit of
    open files first, as far as the process may: shells give 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * most
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return most if soft == resource.RLIM_INFINITY else min(most, max(1, soft // 2))
