"""A user's own class or function, found by its dotted path at start."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from zonesched.errors import ConfigError


def load_dotted(option: str, path: str, known: Iterable[str]) -> object:
    """What `package.module.Name` names.

    Raises ConfigError that names the option, the path and the `known` built-ins.
    """
    module_name, _, attribute = path.rpartition(".")
    if not module_name:
        raise unknown_name(option, path, known)
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise unknown_name(option, path, known) from error


def unknown_name(option: str, name: str, known: Iterable[str]) -> ConfigError:
    """The fault of a name that is neither built in nor importable."""
    return ConfigError(
        f"Option {option}: there is no {name!r}. Known are {', '.join(known)}, or your own by dotted path.",
        field=option,
    )
