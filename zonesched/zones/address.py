"""Addresses of children: accepted URLs, and the addresses that may be connected to.

An admin's URL makes this zone send requests. So a URL has one accepted spelling, a literal address is checked
at once, and all addresses of a name are checked for each connection, which then goes to a checked address.
Pure: names are resolved elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from zonesched.conf import Conf
from zonesched.zones.networks import Address, Networks, real_address

MAX_URL_CHARS = 1024
_MAX_NAME_CHARS = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}

_URL = re.compile(
    r"(?P<scheme>[A-Za-z]+)://"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?"
)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")


class AddressRefused(ValueError):
    """No child may have this address; the text gives the general reason."""


@dataclass(frozen=True)
class Endpoint:
    """Target of a connection. `host` is a name, or the text of the address that `literal` holds."""

    scheme: str
    host: str
    port: int
    literal: Address | None

    @property
    def text(self) -> str:
        """The URL up to its path."""
        host = f"[{self.host}]" if isinstance(self.literal, IPv6Address) else self.host
        default = self.port == _DEFAULT_PORTS[self.scheme]
        return f"{self.scheme}://{host}" if default else f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True)
class ApiUrl:
    """A child's URL in its canonical spelling; `path` is "" or starts, and does not end, with a slash."""

    endpoint: Endpoint
    path: str

    @property
    def text(self) -> str:
        return self.endpoint.text + self.path


class AddressGuard:
    """Addresses at which this zone's configuration allows children."""

    def __init__(self, networks: Networks, *, allow_plain_http: bool = False) -> None:
        self._networks = networks
        self._allow_plain_http = allow_plain_http

    @classmethod
    def from_conf(cls, conf: Conf) -> AddressGuard:
        """Make the guard from child_networks and allow_plain_http. Raises ConfigError."""
        return cls(Networks.from_words(conf.child_networks), allow_plain_http=conf.allow_plain_http)

    def admit(self, endpoint: Endpoint, resolved: Sequence[str]) -> list[str]:
        """Return the addresses to connect to, as numbers. `resolved` is ignored for a literal address.

        Raises AddressRefused if there is none, or if any of them is where no child may be.
        """
        addresses = [endpoint.literal] if endpoint.literal else [_resolved(text) for text in resolved]
        if not addresses:
            raise AddressRefused("its host has no address")
        for address in addresses:
            self._judge(endpoint.scheme, address)
        return [str(address) for address in addresses]

    def _judge(self, scheme: str, address: Address) -> None:
        if not self._networks.admit(address):
            raise AddressRefused("its host is in a network where no child may be (option child_networks)")
        if scheme == "http" and not self._allow_plain_http and not real_address(address).is_loopback:
            raise AddressRefused("it must be https: plain http is for loopback (option allow_plain_http)")


def parse_api_url(text: str) -> ApiUrl:
    """Parse a child's URL. Raises AddressRefused for every spelling but the canonical one."""
    if len(text) > MAX_URL_CHARS:
        raise AddressRefused(f"it is longer than {MAX_URL_CHARS} characters")
    return _parsed(text)


def split_call_url(text: str) -> tuple[Endpoint, str]:
    """Split a call's URL by the reader that accepted the child's URL: target, then path and query."""
    base, mark, query = text.partition("?")
    url = _parsed(base)
    return url.endpoint, (url.path or "/") + mark + query


def _parsed(text: str) -> ApiUrl:
    if "?" in text or "#" in text:
        raise AddressRefused("it has a query or a fragment")
    if "@" in text:
        raise AddressRefused("it carries credentials")
    parts = _URL.fullmatch(text)
    if not parts:
        raise AddressRefused("it is not of the form https://host:port/path")
    if any(segment in (".", "..") for segment in parts["path"].split("/")):
        raise AddressRefused("its path has dot segments")
    return ApiUrl(_endpoint(parts["scheme"].lower(), parts["host"].lower(), parts["port"]), parts["path"])


# Each call parses its URL, and each of a zone's children has one endpoint.
@lru_cache(maxsize=1024)
def _endpoint(scheme: str, host: str, port_text: str | None) -> Endpoint:
    if scheme not in _DEFAULT_PORTS:
        raise AddressRefused("its scheme is neither https nor http")
    port = int(port_text or _DEFAULT_PORTS[scheme])
    if port > 65_535:
        raise AddressRefused("its port is above 65535")
    literal = _literal(host)
    return Endpoint(scheme, str(literal) if literal else _name(host), port, literal)


def _literal(host: str) -> Address | None:
    """Parse a literal address, None for a name. Refuses all spellings but the canonical ones."""
    if host.startswith("["):
        try:
            # Canonical, so that no later parser of the URL can read it as something else.
            return real_address(IPv6Address(host[1:-1]))
        except ValueError:
            raise AddressRefused("its host is not an IPv6 address") from None
    if not _NUMBER_LABEL.fullmatch(host.rpartition(".")[2]):
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise AddressRefused("its host is not an IPv4 address in four plain decimal numbers") from None


def _name(host: str) -> str:
    if len(host) > _MAX_NAME_CHARS or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise AddressRefused("its host is not a name of letters, digits, hyphens and inner dots")
    return host


def _resolved(text: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise AddressRefused("its host has no usable address") from None
    if isinstance(address, IPv6Address) and address.scope_id:
        raise AddressRefused("its host has an address that is good on one link only")
    return real_address(address)
