"""Loading of a user's own class or function by its dotted path or entry point, at start."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from zonesched.errors import ConfigError, ZoneschedError

T = TypeVar("T")

ANY_ERROR = (Exception, SystemExit)
"""Errors that a plugin's code may raise; a `sys.exit` in it must end no thread of a zone."""


def load_dotted(option: str, path: str, known: Iterable[str]) -> object:
    """Return the object at the dotted path `package.module.Name`.

    Raise ConfigError, which names the option, the path and the `known` built-ins.
    """
    module_name, _, attribute = path.rpartition(".")
    if not module_name:
        raise unknown_name(option, path, known)
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ANY_ERROR as error:
        # The author of the module needs to see any error that its import raises.
        raise unknown_name(option, path, known, f" ({type(error).__name__}: {error})") from error


def load_named(option: str, group: str, name: str, known: Iterable[str]) -> object:
    """Return the object of the entry point `name` of `group`, or else the object at the dotted path `name`.

    Raise ConfigError as `load_dotted` and `entry_point_of` do, or if the entry point cannot be loaded.
    """
    which = f"Option {option}: the entry point {name!r} of {group}"
    found = entry_point_of(which, group, name)
    if found is None:
        return load_dotted(option, name, (*known, *sorted(entry_points(group=group).names)))
    try:
        return found.load()
    except ANY_ERROR as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{which} cannot be loaded: {why}", field=option) from error


def entry_point_of(which: str, group: str, name: str) -> EntryPoint | None:
    """Return the entry point of this name; None if there is none.

    Raise ConfigError, which begins with `which`, if several packages have one: which one is found first
    depends on the machine.
    """
    found = {each.value: each for each in entry_points(group=group, name=name)}
    if len(found) > 1:
        raise ConfigError(f"{which} is in several packages: {', '.join(sorted(found))}.")
    return next(iter(found.values()), None)


def created(option: str, name: str, create: Callable[[], T]) -> T:
    """Return what a plugin's code creates. Raise ConfigError, which names option and plugin, if it fails.

    Raise it also, as `check_answers` does, for a method of the contract that the plugin has in its own form.
    """
    try:
        made = create()
    except ZoneschedError:
        raise
    except ANY_ERROR as error:
        raise ConfigError(f"Option {option}: {name} cannot be created: {error!r}", field=option) from error
    for base in type(made).__mro__:
        if base.__module__.startswith(f"{__package__}."):
            for method, contract in vars(base).items():
                if inspect.isfunction(contract) and not _answers_later(contract):
                    check_answers(option, f"{name}.{method}", getattr(type(made), method))
    return made


def check_answers(option: str, name: str, function: object) -> None:
    """Raise ConfigError for a function that gives a coroutine or a generator: either counts as true."""
    if _answers_later(function):
        raise ConfigError(
            f"Option {option}: {name} is a coroutine or a generator function; it must return its answer.",
            field=option,
        )


def _answers_later(function: object) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_one(function) for is_one in kinds)


def unknown_name(option: str, name: str, known: Iterable[str], why: str = "") -> ConfigError:
    """Return the error for a name that is neither built in nor importable; `why` follows the name in it."""
    names = list(known)
    near = difflib.get_close_matches(name.rpartition(".")[2], names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return ConfigError(
        f"Option {option}: there is no {name!r}{why}.{hint} Accepted: {', '.join(names)}, or a dotted path to"
        " your own.",
        field=option,
    )
