"""The options of a zone: one oslo.config instance each, never a global.

Reading a file is `load`; `SAMPLE_GROUPS` is what the sample in etc/ is generated from. An option that
changes no result does not exist.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg, iniparser

from zonesched.conf_checks import SAMPLE_KEY, check_together, refused_value
from zonesched.conf_hosts import HOSTS
from zonesched.conf_scheduler import SCHEDULER
from zonesched.errors import ConfigError

__all__ = ["ALL", "SAMPLE_GROUPS", "SAMPLE_KEY", "Conf", "load"]

Conf = cfg.ConfigOpts

ZONE = [
    cfg.StrOpt("zone_name", default="nova", help="Name of this zone. Two zones may bear the same one."),
    cfg.ListOpt(
        "zone_capabilities",
        default=[],
        help="What this zone as a whole offers, as key=value;value. A flavor asks with zone:key=value.",
    ),
    cfg.StrOpt("state_path", default="zone-state", help="Folder of what this zone keeps on disk."),
    cfg.StrOpt(
        "database_url",
        default="sqlite:///$state_path/zone.sqlite",
        help="Where the zone's rows are (SQLAlchemy URL).",
    ),
]

API = [
    cfg.StrOpt("bind_host", default="127.0.0.1", help="Address to listen on."),
    cfg.PortOpt("bind_port", default=8774, help="Port to listen on."),
    cfg.IntOpt("api_threads", default=32, min=1, max=512, help="Requests served at the same time."),
    cfg.StrOpt(
        "auth_strategy",
        default="http_basic",
        choices=["http_basic", "noauth"],
        help="http_basic: users of this zone's own database. noauth: all may do everything; loopback only.",
    ),
    cfg.BoolOpt("noauth_force", default=False, help="Allow noauth on an address that is not loopback."),
    cfg.BoolOpt("allow_admin_api", default=True, help="False: every call below /zones answers 403."),
    cfg.BoolOpt(
        "enable_zone_routing",
        default=True,
        help="Pass calls for one instance on to the child zone that has it.",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=16 * 2**20,
        min=1024,
        help="Largest request body that is read; above it, 413.",
    ),
    cfg.IntOpt(
        "max_instances_per_request",
        default=10_000,
        min=1,
        max=100_000,
        help="Largest num_instances of a boot.",
    ),
    cfg.IntOpt("max_server_groups", default=1000, min=1, help="Most server groups of one project."),
]

SEAL = [
    cfg.ListOpt(
        "build_plan_encryption_key",
        default=[],
        secret=True,
        help="Keys of sealed entries, 64 hex digits each; the first seals, all open. `zonesched key generate`"
        " makes one. Without one the zone boots its own hosts and refuses select.",
    ),
    cfg.IntOpt(
        "build_plan_blob_size",
        default=0,
        min=0,
        max=65_536,
        help="Bytes of every sealed entry. 0: 256 without children, else the largest child's + 128, rounded"
        " up to 256, at most 8192.",
    ),
    cfg.FloatOpt(
        "build_plan_ttl", default=60.0, min=1.0, max=300.0, help="Seconds until a sealed entry expires."
    ),
    cfg.StrOpt(
        "secret_encryption_key",
        default="",
        secret=True,
        help="Key of the children's credentials at rest, 64 hex digits. Needed by a zone with children.",
    ),
]

SELECT = [
    cfg.FloatOpt(
        "select_timeout",
        default=10.0,
        min=0.1,
        max=3600.0,
        help="Time budget in seconds of a select made here.",
    ),
    cfg.FloatOpt(
        "select_reserve",
        default=0.25,
        min=0.0,
        help="Seconds of a select's budget that this zone keeps for itself (at most a fifth of what came);"
        " children get the rest.",
    ),
    cfg.IntOpt(
        "max_entries_per_select", default=10_000, min=1, help="Most entries that one select tells a parent."
    ),
    cfg.IntOpt(
        "select_alternates", default=3, min=0, max=1000, help="Alternates asked for with each select."
    ),
    cfg.StrOpt(
        "explain_to_parent",
        default="reasons",
        choices=["none", "reasons", "counts"],
        help="How much of why hosts were refused a parent is told.",
    ),
]

CHILDREN = [
    cfg.FloatOpt(
        "zone_db_check_interval", default=10.0, min=0.1, help="Seconds between two polls of the child zones."
    ),
    cfg.IntOpt(
        "zone_failures_to_offline", default=3, min=1, help="Failed polls in a row until a child is inactive."
    ),
    cfg.FloatOpt(
        "zone_poll_timeout", default=5.0, min=0.1, help="Seconds that one poll of a child may take."
    ),
    cfg.ListOpt(
        "child_networks",
        default=["public", "private"],
        help="Where children may be: public, private, loopback, link-local, or networks such as 10.1.0.0/16.",
    ),
    cfg.BoolOpt("allow_plain_http", default=False, help="Allow http:// children that are not on loopback."),
    cfg.StrOpt("child_ca_file", default="", help="CA certificates that children's https is checked with."),
    cfg.IntOpt(
        "child_answer_bytes", default=64 * 2**20, min=1024, help="Largest answer of a child that is read."
    ),
]

BOOT = [
    cfg.IntOpt("boot_workers", default=4, min=1, max=64, help="Reservations worked on at the same time."),
    cfg.FloatOpt("boot_lease", default=60.0, min=1.0, help="Seconds until another worker takes over a boot."),
    cfg.FloatOpt(
        "boot_poll_interval", default=2.0, min=0.05, help="Seconds between two looks for boots left over."
    ),
    cfg.FloatOpt(
        "build_timeout",
        default=30.0,
        min=0.1,
        max=3600.0,
        help="Seconds that one call of a boot to a child may take.",
    ),
    cfg.FloatOpt(
        "hold", default=30.0, min=1.0, max=600.0, help="Seconds that a claim is held without a confirm."
    ),
    cfg.FloatOpt(
        "hold_margin", default=5.0, min=0.0, help="Seconds a hold must have left when confirm goes out."
    ),
    cfg.FloatOpt(
        "max_hold", default=600.0, min=1.0, help="Longest hold in seconds that a parent may ask for."
    ),
    cfg.IntOpt("max_attempts", default=3, min=1, help="Selects that one boot may make."),
    cfg.FloatOpt(
        "retry_window", default=3600.0, min=1.0, help="Seconds that the answer of an ended attempt is kept."
    ),
    cfg.FloatOpt(
        "ended_retention",
        default=604_800.0,
        min=1.0,
        help="Seconds that a boot whose instances are all deleted is kept, with its Idempotency-Key.",
    ),
    cfg.FloatOpt(
        "retry_pause", default=1.0, min=0.05, help="First pause in seconds of a call that is repeated."
    ),
    cfg.FloatOpt("retry_pause_max", default=60.0, min=0.1, help="Longest pause in seconds of such a call."),
    cfg.FloatOpt(
        "instance_sync_interval",
        default=30.0,
        min=0.1,
        help="Seconds between two questions what changed below.",
    ),
]

SAMPLE_GROUPS: Sequence[tuple[str, Sequence[Any]]] = (
    ("The zone", ZONE),
    ("The HTTP surface", API),
    ("Sealing", SEAL),
    ("The scheduler", SCHEDULER),
    ("Hosts and aggregates", HOSTS),
    ("Select", SELECT),
    ("Child zones", CHILDREN),
    ("Boot", BOOT),
)

ALL: Sequence[Any] = tuple(option for _, options in SAMPLE_GROUPS for option in options)


def load(config_files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None) -> Conf:
    """The options of one zone, from INI files and overrides by name.

    Raises ConfigError, which names the option and the accepted values, for anything that cannot be used.
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
    for name, value in (overrides or {}).items():
        _override(conf, _option(name, "an override"), value)
    for option in ALL:
        _read(conf, option, given.get(option.name, ""))
    check_together(conf)
    return conf


def _read_file(name: str) -> dict[str, str]:
    """The options that a file sets, as written. Raises ConfigError for a name that is no option."""
    if not Path(name).is_file():
        raise ConfigError(f"The configuration file {name} does not exist.")
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(name, sections).parse()
    except iniparser.ParseError as error:
        # The line itself may hold a key.
        raise ConfigError(
            f"The configuration file {name} cannot be read: line {error.lineno}: {error.msg}"
        ) from None
    except (cfg.Error, UnicodeDecodeError, OSError) as error:
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


def _option(name: str, where: str) -> Any:
    for option in ALL:
        if name in (option.name, *(older.name for older in option.deprecated_opts)):
            return option
    near = difflib.get_close_matches(name, [option.name for option in ALL], n=1)
    hint = f"Did you mean {near[0]}?" if near else "etc/zonesched/zonesched.conf lists them all."
    raise ConfigError(f"Option {name} in {where} does not exist. {hint}", field=name)


def _override(conf: Conf, option: Any, value: Any) -> None:
    try:
        conf.set_override(option.name, value)
    except ValueError:
        raise refused_value(option, str(value)) from None


def _read(conf: Conf, option: Any, written: str) -> None:
    try:
        value = conf[option.dest]
    except (cfg.Error, ValueError):
        raise refused_value(option, written) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise refused_value(option, written or str(value))
