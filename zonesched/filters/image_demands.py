"""Demands of an image's properties on the hypervisor, and their comparison with what a host reports."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

OLDER_NAMES = {
    "hw_architecture": "architecture",
    "img_hv_type": "hypervisor_type",
    "hw_vm_mode": "vm_mode",
    "img_hv_requested_version": "hypervisor_version_requires",
}
SAME = {
    "amd64": "x86_64",
    "x86-64": "x86_64",
    "x86_32": "i686",
    "x86_32p": "i686",
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "arm64": "aarch64",
    "xapi": "xen",
    "pv": "xen",
    "hv": "hvm",
    "baremetal": "hvm",
}
"""Names that OpenStack treats as equal; comparison ignores case."""

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_BOUND = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*([0-9]+(?:\.[0-9]+)*)\s*")
_MAX_LENGTH = 64

Version = tuple[int, ...]
Combination = tuple[str, str, str]
"""Architecture, hypervisor type, vm mode; "" for one that is not named."""


@dataclass(frozen=True)
class ImageDemands:
    """The combination that a host must support, and bounds on the version of its hypervisor."""

    combination: Combination
    bounds: tuple[tuple[str, Version], ...]

    def __bool__(self) -> bool:
        return any(self.combination) or bool(self.bounds)

    def met_by(self, capabilities: Mapping[str, Any]) -> bool:
        """Return True if a host with these capabilities can run the image."""
        if any(self.combination) and not any(map(self._covered_by, _supported(capabilities))):
            return False
        version = _version_of_host(capabilities.get("hypervisor_version"))
        return not version or all(_holds(name, version, bound) for name, bound in self.bounds)

    def _covered_by(self, supported: Combination) -> bool:
        return all(
            wanted in ("", offered) for wanted, offered in zip(self.combination, supported, strict=True)
        )


def image_demands(properties: Mapping[str, str], default_architecture: str = "") -> ImageDemands:
    """Return the demands of an image with these properties. Raise ValueError, which names the property."""
    arch, hypervisor, mode, version = (
        properties.get(name) or properties.get(older, "") for name, older in OLDER_NAMES.items()
    )
    combination = (_same(arch or default_architecture), _same(hypervisor), _same(mode))
    return ImageDemands(combination, tuple(_bounds(version)))


def _bounds(text: str) -> Iterator[tuple[str, Version]]:
    if not text.strip():
        return
    for part in text.split(","):
        bound = _BOUND.fullmatch(part)
        if bound is None or len(part) > _MAX_LENGTH:
            raise ValueError(
                "img_hv_requested_version: must be versions after == != < <= > >=, such as >=6.0,<7"
            )
        yield bound[1], _version(bound[2])


def _supported(capabilities: Mapping[str, Any]) -> Iterator[Combination]:
    """Yield the combinations that a host reports; its hypervisor type alone if it reports none."""
    reported = capabilities.get("supported_instances")
    if not reported or not isinstance(reported, list):
        yield ("", _same(capabilities.get("hypervisor_type", "")), "")
        return
    for item in reported:
        if isinstance(item, list) and len(item) == 3:
            arch, hypervisor, mode = item
            yield (_same(arch), _same(hypervisor), _same(mode))


def _same(name: object) -> str:
    text = name.strip().lower() if isinstance(name, str) else ""
    return SAME.get(text, text)


def _version_of_host(reported: object) -> Version:
    match reported:
        case bool():
            return ()
        case int() if reported > 0:
            return _version(str(reported))
        case str() if re.fullmatch(r"[0-9]+(\.[0-9]+)*", reported) and len(reported) <= _MAX_LENGTH:
            return _version(reported)
        case _:
            return ()


def _version(text: str) -> Version:
    """Return the parts of 2.12.0, which OpenStack also writes as 2012000, three digits a part."""
    parts = tuple(int(part) for part in text.split("."))
    number = parts[0]
    if len(parts) > 1:
        return parts
    packed: list[int] = []
    while number:
        number, part = divmod(number, 1000)
        packed.insert(0, part)
    return tuple(packed)


def _holds(name: str, version: Version, bound: Version) -> bool:
    """Return True if the comparison holds; missing parts count as 0."""
    order = next((1 if a > b else -1 for a, b in zip_longest(version, bound, fillvalue=0) if a != b), 0)
    return _COMPARISONS[name](order, 0)
