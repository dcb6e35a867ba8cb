"""Rules for the URLs of a zone's database, broker and service group.

On another machine each needs TLS that checks the server's name, unless `allow_unverified_services` is set.
URLs may hold passwords: `masked` is the form that may be shown.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qs, urlsplit

from zonesched.errors import ConfigError

ALLOW = "allow_unverified_services"

PROTECTION = {
    "database_url": "sslmode=verify-full",
    "transport_url": "amqps:// without ssl parameters",
    "servicegroup_driver": "rediss:// or etcd3+https://",
}
"""Advice by option: the part of its URL that selects TLS with checked names."""

DATABASE_URLS = "sqlite:////folder/zone.sqlite, or postgresql+psycopg://user:password@host/database"
"""Forms of the URL of a database that a zone can work with."""

GROUP_CLIENTS = {
    "redis": "redis",
    "rediss": "redis",
    "memcached": "pymemcache",
    "zookeeper": "kazoo",
    "kazoo": "kazoo",
    "etcd3+http": "etcd3gw",
    "etcd3+https": "etcd3gw",
}
"""Package that a service group's URL needs besides tooz, by the URL's scheme."""

_POSTGRESQL = "postgresql"
_PASSWORD = re.compile(r"(?<=//)([^:/@]*):.*@")
_PASSWORD_PARAMETER = re.compile(r"(?<=[?&])(\w*password)=[^&]*", re.IGNORECASE)
_HOST_PARAMETERS = ("host", "hostaddr", "hosts", "sentinel_fallback")
_LIBPQ_VARIABLES = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "service": "PGSERVICE"}
"""Variables of the environment from which libpq takes parameters that a URL leaves out."""

_INDIRECT = ("service", "sentinel")
"""Parameters that name a place where the address is looked up: a file of libpq's, a Redis Sentinel."""


def unprotected(conf: Mapping[str, str]) -> list[str]:
    """Return the options whose URL needs `allow_unverified_services`."""
    return [option for option in PROTECTION if not is_protected(conf[option])]


def check_protected(option: str, url: str, setting: str, allow: str) -> None:
    """Raise ConfigError if `url` needs to be allowed.

    `setting` names the value in the error, and `allow` the setting that allows it.
    """
    if not is_protected(url):
        raise ConfigError(
            f"{setting}: a connection to another machine needs TLS that checks the server's name. Accepted:"
            f" {PROTECTION[option]}, or an address of this machine. With {allow} it is accepted as it is;"
            " passwords and data can then be read and changed on the way.",
            field=option,
        )


def check_transport_url(url: str, setting: str) -> None:
    """Raise ConfigError if `url` is neither empty nor the URL of a broker.

    `setting` names the value in the error. The URL may hold a password, so the error never shows it.
    """
    if not url:
        return
    try:
        parts = urlsplit(url)
        is_broker = parts.scheme in ("amqp", "amqps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_broker = False
    if not is_broker:
        raise ConfigError(
            f"{setting}: the value is not accepted. Accepted: empty, or amqp://user:password@host:5672/vhost"
            " (amqps with TLS).",
            field="transport_url",
        )
    _check_installed("kombu", "amqp", setting, "transport_url")


def check_servicegroup_driver(driver: str, setting: str) -> None:
    """Raise ConfigError if `driver` is neither empty, `db` nor the URL of a service group.

    `setting` names the value in the error, which never shows the URL.
    """
    if driver in ("", "db"):
        return
    try:
        parts = urlsplit(driver)
        client = GROUP_CLIENTS.get(parts.scheme, "") if parts.hostname and parts.port != 0 else ""
    except ValueError:
        client = ""
    if not client:
        raise ConfigError(
            f"{setting}: the value is not accepted. Accepted: db, or a URL of {', '.join(GROUP_CLIENTS)}.",
            field="servicegroup_driver",
        )
    for package in ("tooz", client):
        _check_installed(package, "coordination", setting, "servicegroup_driver")


def check_database_url(url: str) -> None:
    """Raise ConfigError for another database, or where a password could be taken for a part of the host."""
    if url.startswith("sqlite"):
        return
    if not url.startswith((f"{_POSTGRESQL}:", f"{_POSTGRESQL}+")):
        # The URL may hold a password: it is not shown.
        raise ConfigError(
            f"Option database_url: the value is not accepted. Accepted: {DATABASE_URLS}.",
            field="database_url",
        )
    try:
        is_clear = url.count("@") <= ("@" in urlsplit(url).netloc)
    except ValueError:
        is_clear = False
    if not is_clear:
        raise ConfigError(
            "Option database_url: the value is not accepted. Accepted: a URL with @ / ? # percent-encoded in"
            " its user name, password and parameters, such as %40 for @.",
            field="database_url",
        )


def with_checked_names(database_url: str) -> str:
    """Return the URL; for PostgreSQL on another machine with sslmode=verify-full, unless it has a sslmode."""
    parts = urlsplit(database_url)
    is_remote = parts.scheme.startswith(_POSTGRESQL) and not _is_local(parts, _parameters(parts))
    if not is_remote or "sslmode" in parse_qs(parts.query):
        return database_url
    return f"{database_url}{'&' if parts.query else '?'}sslmode=verify-full"


def masked(url: str) -> str:
    """Return the URL with *** in the place of each password."""
    return _PASSWORD_PARAMETER.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", url))


def is_protected(url: str) -> bool:
    """Tell whether a URL leads to this machine alone, or through TLS that checks the server's name."""
    # kombu accepts several brokers.
    urls = url.split(";") if url.startswith("amqp") else [url]
    return all(_is_protected(urlsplit(one)) for one in urls)


def is_loopback(address: str) -> bool:
    """Tell whether only this machine can reach a listener on `address`."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _check_installed(package: str, extra: str, setting: str, field: str) -> None:
    try:
        is_installed = importlib.util.find_spec(package) is not None
    except ValueError:
        # kombu replaces its own module when it is imported, and the replacement has no spec.
        is_installed = True
    if not is_installed:
        raise ConfigError(
            f"{setting} needs the package {package}: install zonesched with the extra {extra}.", field=field
        )


def _is_protected(parts: SplitResult) -> bool:
    parameters = _parameters(parts)
    return _is_local(parts, parameters) or _checks_names(parts.scheme, parameters)


def _parameters(parts: SplitResult) -> dict[str, list[str]]:
    """Return a URL's parameters, for PostgreSQL with those that libpq takes from its environment."""
    given = parse_qs(parts.query, keep_blank_values=True)
    if not parts.scheme.startswith(_POSTGRESQL):
        return given
    named = {*given, "host"} if parts.hostname else set(given)
    from_environment = {
        name: [value]
        for name, variable in _LIBPQ_VARIABLES.items()
        if name not in named and (value := os.environ.get(variable))
    }
    return given | from_environment


def _is_local(parts: SplitResult, parameters: Mapping[str, list[str]]) -> bool:
    if any(name in parameters for name in _INDIRECT):
        return False
    listed = [one for name in _HOST_PARAMETERS for one in ",".join(parameters.get(name, [])).split(",")]
    hosts = [host for host in (parts.hostname, *listed) if host]
    return all(
        host.startswith("/") or is_loopback(host) or is_loopback(host.rpartition(":")[0]) for host in hosts
    )


def _checks_names(scheme: str, parameters: Mapping[str, list[str]]) -> bool:
    last = {name: values[-1].lower() for name, values in parameters.items()}
    match scheme:
        case "amqps":
            # kombu takes such parameters in the place of all that the zone sets.
            return not any(name.startswith("ssl") for name in parameters)
        case "rediss" | "etcd3+https":
            return True
        case "redis":
            needed = ("ssl", "sentinel_ssl") if "sentinel" in last else ("ssl",)
            return all(last.get(name) == "true" for name in needed)
        case "memcached":
            return last.get("use_ssl") == "true" and last.get("ssl_check_hostname") == "true"
        case _:
            # Without a sslmode, the store sets this one.
            return scheme.startswith(_POSTGRESQL) and last.get("sslmode", "verify-full") == "verify-full"
