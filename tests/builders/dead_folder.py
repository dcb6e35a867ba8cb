"""A folder on a file system that does not answer, as NFS whose server is gone: FUSE that nobody serves."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

DETACH = 2
NOSUID_NODEV = 6


@contextmanager
def dead_folder(at: Path) -> Iterator[None]:
    """Let whatever looks into a folder wait until the block ends; then it gets an error.

    A folder above it may be renamed meanwhile.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # Tests beside this one have mounts of their own.
    source = f"zonesched-dead-{uuid4()}"
    try:
        served = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"there is no FUSE: {error}")
    options = f"fd={served},rootmode=40000,user_id=0,group_id=0".encode()
    try:
        if libc.mount(source.encode(), os.fsencode(at), b"fuse", NOSUID_NODEV, options):
            pytest.skip(f"nothing can be mounted: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            for place in _mounted(source):
                libc.umount2(os.fsencode(place), DETACH)
    finally:
        os.close(served)


def _mounted(source: str) -> list[str]:
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [line[4] for line in lines if line[-2] == source]
