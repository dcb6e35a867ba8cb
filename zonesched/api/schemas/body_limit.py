"""The largest body that a call takes, in bytes and in JSON values; both are checked before it is parsed."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class BodyLimit:
    """Bytes and JSON values (keys count) of one body.

    `bytes_each` and `values_each` come on top for each of the builds that a parent may name in one call.
    The option `max_body_bytes` bounds every body as well.
    """

    bytes: int
    values: int
    bytes_each: int = 0
    values_each: int = 0

    def in_zone(self, max_builds: int, max_body_bytes: int) -> BodyLimit:
        """The limit under these two limits of a zone."""
        size = min(max_body_bytes, self.bytes + self.bytes_each * max_builds)
        return BodyLimit(size, self.values + self.values_each * max_builds)


SMALL = BodyLimit(64 * KIB, 1024)
"""A few fields."""
WITH_MAP = BodyLimit(512 * KIB, 1024)
"""A few fields and a text map of 128 items."""
REQUEST = BodyLimit(512 * KIB, 8192)
"""A boot or a request spec: 64 KiB of user data or hints, text maps, a query."""
BUILDS = BodyLimit(512 * KIB, 8192, bytes_each=176 * KIB, values_each=24)
"""A request spec, and 16 blobs for each instance."""
ATTEMPTS = BodyLimit(KIB, 16, bytes_each=128, values_each=8)
"""One attempt for each instance."""
HOSTS = BodyLimit(16 * KIB * KIB, 512 * KIB)
"""2,000 hosts of an agent, some 260 values each."""
REPORTS = BodyLimit(KIB * KIB, 32 * KIB)
"""2,000 reports of an agent."""
DESIRED = BodyLimit(2 * KIB * KIB, 32 * KIB)
"""1,000 desired states of a parent's instances, 8 images of their rebuilds and 8 flavors of their resizes."""
NAMED = BodyLimit(4 * KIB * KIB, 128 * KIB)
"""1,000 attempts of 20 boots, with their request specs."""
CONSOLE = BodyLimit(256 * KIB, 64)
"""A console output of 32 KiB, each byte of which may be written as six in JSON."""
