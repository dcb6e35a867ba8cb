"""Options of the zones that tests build: registered and read once per process, and copied for each zone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from zonesched import conf as options
from zonesched.conf import loading


def loaded(overrides: Mapping[str, Any]) -> options.Conf:
    """Return what `conf.load` returns for the same overrides."""
    conf = copy_of(_defaults())
    loading.override(conf, overrides)
    # An override has emptied what was read; the other options have their defaults.
    read = _values(conf)
    for key, value in _values(_defaults()).items():
        read.setdefault(key, value)
    return conf


def copy_of(conf: options.Conf) -> options.Conf:
    """Return the same options, with what was read of them; a test may override them."""
    twin = options.Conf.__new__(options.Conf)
    vars(twin).update(vars(conf))
    twin._opts = {name: dict(option) for name, option in conf._opts.items()}
    vars(twin)[_CACHE] = dict(_values(conf))
    return twin


def forget_read(conf: options.Conf) -> None:
    """Have every option be read anew."""
    _values(conf).clear()


_CACHE = "_ConfigOpts__cache"


@cache
def _defaults() -> options.Conf:
    conf = options.load()
    for option in options.ALL:
        conf[option.dest]
    return conf


def _values(conf: options.Conf) -> dict[tuple[str | None, str], Any]:
    """Return the values that were read already, by group and name."""
    read: dict[tuple[str | None, str], Any] = vars(conf)[_CACHE]
    return read
