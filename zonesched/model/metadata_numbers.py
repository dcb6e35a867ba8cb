"""Numbers in the metadata of aggregates that override the value of an option."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from zonesched.decimal_text import decimal_number
from zonesched.model.aggregate import Aggregate

log = logging.getLogger(__name__)


class MetadataNumbers:
    """Reader of the number under one metadata key; create one reader per key and reuse it.

    A value that is not a finite number of at least `minimum` is logged once, not for each request.
    """

    def __init__(self, key: str, minimum: float = -math.inf) -> None:
        self.key = key
        self._minimum = minimum
        self._warned: set[tuple[str, str]] = set()

    def smallest(self, aggregates: Iterable[Aggregate], otherwise: float) -> float:
        """Return the smallest number of the aggregates that have the key, as OpenStack Compute does.

        Return `otherwise` where none has the key, or where the value of any of them is not usable.
        """
        texts = [(a.name, a.metadata[self.key]) for a in aggregates if self.key in a.metadata]
        numbers = [self._read(name, text) for name, text in texts]
        return min(numbers, default=otherwise) if not any(map(math.isnan, numbers)) else otherwise

    def _read(self, aggregate_name: str, text: str) -> float:
        number = decimal_number(text)
        if number is not None and number >= self._minimum:
            return number
        if (aggregate_name, text) not in self._warned:
            self._warned.add((aggregate_name, text))
            log.warning(
                "aggregate %s: %s = %r is not a finite number%s; the option's value is used",
                aggregate_name,
                self.key,
                text,
                f" of at least {self._minimum:g}" if math.isfinite(self._minimum) else "",
            )
        return math.nan
