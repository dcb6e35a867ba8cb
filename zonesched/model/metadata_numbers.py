"""Numbers that operators write in the metadata of aggregates, in place of an option's value."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from zonesched.model.aggregate import Aggregate

log = logging.getLogger(__name__)


class MetadataNumbers:
    """The number under one metadata key, which whoever reads it holds on to.

    It remembers what it has warned of, so that a wrong value is in the log once and not at each request.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._warned: set[tuple[str, str]] = set()

    def smallest(self, aggregates: Iterable[Aggregate], otherwise: float) -> float:
        """Of several aggregates that have the key, the smallest number, as in OpenStack Compute.

        `otherwise` where none has it, or where any of them has something that is no finite number there.
        """
        texts = [(a.name, a.metadata[self.key]) for a in aggregates if self.key in a.metadata]
        numbers = [self._read(name, text) for name, text in texts]
        return min(numbers, default=otherwise) if not any(map(math.isnan, numbers)) else otherwise

    def _read(self, aggregate_name: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
        if (aggregate_name, text) not in self._warned:
            self._warned.add((aggregate_name, text))
            log.warning(
                "aggregate %s: %s = %r is no finite number; the option's value is used",
                aggregate_name,
                self.key,
                text,
            )
        return math.nan
