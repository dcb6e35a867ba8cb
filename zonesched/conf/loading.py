"""Read a zone's options from files and overrides, and check them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg, iniparser

from zonesched.conf.checks import check_together, refused_value
from zonesched.conf.hosts import HOSTS
from zonesched.conf.quotas import LIMITS
from zonesched.conf.scheduler import SCHEDULER
from zonesched.conf.services import SERVICES
from zonesched.conf.tls import TLS
from zonesched.conf.zone import API, BOOT, CHILDREN, SEAL, SELECT, ZONE
from zonesched.decimal_text import decimal_number
from zonesched.errors import ConfigError
from zonesched.remote_services import masked

Conf = cfg.ConfigOpts

SAMPLE_GROUPS: Sequence[tuple[str, Sequence[Any]]] = (
    ("The zone", ZONE),
    ("The HTTP surface", API),
    ("TLS", TLS),
    ("Sealing", SEAL),
    ("The scheduler", SCHEDULER),
    ("Hosts and aggregates", HOSTS),
    ("Services and notifications", SERVICES),
    ("Select", SELECT),
    ("Child zones", CHILDREN),
    ("Boot", BOOT),
    ("Limits", LIMITS),
)

ALL: Sequence[Any] = tuple(option for _, options in SAMPLE_GROUPS for option in options)

_BY_NAME: Mapping[str, Any] = {
    name: option
    for option in ALL
    for name in (option.name, *(older.name for older in option.deprecated_opts))
}


def load(config_files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None) -> Conf:
    """Return the options of one zone, from INI files and from overrides by name.

    Raise ConfigError, which names the option and the accepted values, for a value that cannot be used.
    """
    given: dict[str, str] = {}
    for name in config_files:
        given |= _read_file(name)
    conf = cfg.ConfigOpts()
    conf.register_opts(ALL)
    conf(
        args=[],
        project="zonesched",
        default_config_files=list(config_files),
        default_config_dirs=[],
        use_env=False,
    )
    override(conf, overrides or {}, given)
    return conf


def override(conf: Conf, overrides: Mapping[str, Any], given: Mapping[str, str] | None = None) -> None:
    """Override options by name, and check the result.

    `given`: what a file sets, as written. Raise ConfigError as `load` does.
    """
    given = given or {}
    overridden = {_option(name, "an override").name: value for name, value in overrides.items()}
    for name, value in overridden.items():
        _override(conf, _BY_NAME[name], value)
    for name in {**given, **overridden}:
        _read(conf, _BY_NAME[name], given.get(name, ""))
    check_together(conf)


def _read_file(name: str) -> dict[str, str]:
    """Return the options that a file sets, as written. Raise ConfigError for an unknown option."""
    if not Path(name).is_file():
        why = "is no file" if Path(name).exists() else "does not exist"
        raise ConfigError(f"The configuration file {name} {why}.")
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        if Path(name).read_text(encoding="utf-8").startswith("\ufeff"):
            raise ConfigError(
                f"The configuration file {name} begins with a byte order mark: save it without."
            )
        cfg.ConfigParser(name, sections).parse()
    except iniparser.ParseError as error:
        # The message leaves the line out, since it may hold a key.
        raise ConfigError(
            f"The configuration file {name} cannot be read: line {error.lineno}: {error.msg}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration file {name} is not a text in UTF-8.") from None
    except (cfg.Error, OSError) as error:
        raise ConfigError(f"The configuration file {name} cannot be read: {error}") from error
    for section in sections:
        if section != "DEFAULT":
            raise ConfigError(f"Section [{section}] in {name} is not accepted. Accepted: [DEFAULT].")
    given: dict[str, str] = {}
    for key, lines in sections.get("DEFAULT", {}).items():
        option = _option(key, name)
        if option.name in given:
            raise ConfigError(f"Option {option.name} is set under two names in {name}.", field=option.name)
        given[option.name] = lines[-1]
    return given


def secrets_in(name: str) -> list[str]:
    """Return the names of the options that a configuration file sets to a secret, or to a URL with one.

    Raise ConfigError for a file that cannot be read.
    """
    given = _read_file(name)
    return [
        option.name
        for option in ALL
        if (value := given.get(option.name)) and (option.secret or masked(value) != value)
    ]


def _option(name: str, where: str) -> Any:
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(name, [option.name for option in ALL], n=1)
    hint = f"Did you mean {near[0]}?" if near else "`zonesched config sample zone` lists them all."
    raise ConfigError(f"Option {name} in {where} does not exist. {hint}", field=name)


def _override(conf: Conf, option: Any, value: Any) -> None:
    if isinstance(option, cfg.MultiStrOpt) and isinstance(value, str):
        value = [item.strip() for item in value.split(",")]
    try:
        conf.set_override(option.name, value)
    except ValueError:
        raise refused_value(option, str(value)) from None


def _read(conf: Conf, option: Any, written: str) -> None:
    try:
        value = conf[option.dest]
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):
        raise ConfigError(
            f"Option {option.name}: a $ in its value names no option to refer to. Write $$ for a $ itself.",
            field=option.name,
        ) from None
    except (cfg.Error, ValueError):
        raise refused_value(option, written) from None
    # An option of a number that is left empty reads as None.
    if value is None and option.default is not None:
        raise refused_value(option, written)
    is_number = isinstance(option, cfg.IntOpt | cfg.PortOpt | cfg.FloatOpt)
    # Another option's value, which is looked at where it is set.
    refers = "$" in written
    if is_number and written and not refers and decimal_number(written.strip()) is None:
        raise refused_value(option, written)
    if isinstance(value, float) and not math.isfinite(value):
        raise refused_value(option, written or str(value))
