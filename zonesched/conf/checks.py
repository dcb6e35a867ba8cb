"""Accepted values of options in words, and the rules between the options of one zone.

Nothing here reads a file: `zonesched.conf.load` does so and calls `check_together` last.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from oslo_config import cfg

from zonesched.errors import ConfigError
from zonesched.ratios import read_ratios
from zonesched.remote_services import (
    ALLOW,
    PROTECTION,
    check_database_url,
    check_protected,
    check_servicegroup_driver,
    check_transport_url,
    is_loopback,
    masked,
)

SAMPLE_KEY = "c286696d887c9aa0611bbb3e2025a45b"
"""The key printed in the original documents: it is public, so it never seals."""

SMALLEST_BLOB = 256
"""Size in bytes of the smallest sealed entry, equal to `seal.entry_form.MIN_BLOB_BYTES`."""

NAMED_NETWORKS = ("public", "private", "loopback", "link-local")
"""Words that child_networks accepts besides networks such as 10.1.0.0/16."""


ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")
"""An origin in the form of https://www.rfc-editor.org/rfc/rfc6454#section-6.2."""

CAPABILITY_PART = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069=;]+")
MAX_CAPABILITY_KEY = 255
"""Key and values of a zone's capability, as a parent reads them; it would take another one for a lie."""

MAX_ZONE_NAME = 128
"""Bytes of a zone's name, which begins the names of its queues; AMQP limits them to 255."""


def accepted_values(option: Any) -> str:
    """Return the accepted values of `option` in words, such as "a whole number from 1 to 512".

    The sample and the errors use the same words.
    """
    if getattr(option.type, "choices", None):
        return "one of " + ", ".join(option.type.choices)
    match option:
        case cfg.BoolOpt():
            return "true or false"
        case cfg.IntOpt() | cfg.PortOpt():
            return "a whole number" + _bounds(option.type)
        case cfg.FloatOpt():
            return "a number" + _bounds(option.type)
        case cfg.MultiStrOpt():
            return "text; may be set several times"
        case cfg.ListOpt():
            return "a list, separated by commas"
        case _:
            return "text"


def _bounds(option_type: Any) -> str:
    match option_type.min, option_type.max:
        case None, None:
            return ""
        case low, None:
            return f" from {low} up"
        case None, high:
            return f" up to {high}"
        case low, high:
            return f" from {low} to {high}"


def refused_value(option: Any, shown: str) -> ConfigError:
    """Return the error for a value that `option` does not accept; a secret's value is not shown."""
    value = "the value" if option.secret or not shown else repr(masked(shown))
    return ConfigError(
        f"Option {option.name}: {value} is not accepted. Accepted: {accepted_values(option)}.",
        field=option.name,
    )


def check_together(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError for values that are each accepted alone but cannot be used together."""
    _check_zone_name(conf.zone_name)
    _check_keys(conf)
    _check_blob_size(conf.build_plan_blob_size)
    _check_zone_capabilities(conf.zone_capabilities)
    _check_child_networks(conf.child_networks)
    _check_origins(conf.cors_allowed_origins)
    for option in ("least_cost_functions", "metrics_weight_setting", "image_props_weight_setting"):
        _check_ratios(option, conf[option])
    _check_order(conf, "hold_margin", "hold", strict=True)
    _check_order(conf, "hold", "max_hold", strict=False)
    _check_order(conf, "retry_pause", "retry_pause_max", strict=False)
    _check_noauth(conf)
    for needing in ("tls_key_file", "tls_client_ca_file"):
        _check_needs(conf, needing, "tls_certificate_file")
    _check_needs(conf, "child_key_file", "child_certificate_file")
    check_transport_url(conf.transport_url, "Option transport_url")
    check_servicegroup_driver(conf.servicegroup_driver, "Option servicegroup_driver")
    check_database_url(conf.database_url)
    if not conf[ALLOW]:
        for option in PROTECTION:
            check_protected(option, conf[option], f"Option {option}", f"{ALLOW} = true")


def _check_zone_name(name: str) -> None:
    if not name or not name.isprintable() or len(name.encode(errors="replace")) > MAX_ZONE_NAME:
        raise ConfigError(
            f"Option zone_name: {name!r} is not accepted. Accepted: a printable text of 1 to {MAX_ZONE_NAME}"
            " bytes.",
            field="zone_name",
        )


def _check_keys(conf: cfg.ConfigOpts) -> None:
    # A short sealing key is no error: the zone starts, logs a warning and refuses select.
    for key in conf.build_plan_encryption_key:
        if key != SAMPLE_KEY:
            _check_hex("build_plan_encryption_key", key)
    for key in conf.secret_encryption_key:
        _check_hex("secret_encryption_key", key)


def _check_hex(option: str, key: str) -> None:
    try:
        bytes.fromhex(key)
    except ValueError:
        raise ConfigError(f"Option {option}: a key is 64 hex digits.", field=option) from None


def _check_blob_size(size: int) -> None:
    if 0 < size < SMALLEST_BLOB:
        raise ConfigError(
            f"Option build_plan_blob_size: {size} is not accepted. Accepted: 0, or a whole number from"
            f" {SMALLEST_BLOB} to 65536.",
            field="build_plan_blob_size",
        )


def _check_zone_capabilities(items: list[str]) -> None:
    for item in items:
        key, _, values = item.partition("=")
        parts = [part.strip() for part in (key, *values.split(";"))]
        if not all(map(CAPABILITY_PART.fullmatch, parts)) or len(parts[0]) > MAX_CAPABILITY_KEY:
            raise ConfigError(
                f"Option zone_capabilities: {item!r} is not accepted. Accepted: key=value;value, several"
                " separated by commas.",
                field="zone_capabilities",
            )


def _check_child_networks(items: list[str]) -> None:
    for item in items:
        if item in NAMED_NETWORKS:
            continue
        try:
            ipaddress.ip_network(item)
        except ValueError:
            raise ConfigError(
                f"Option child_networks: {item!r} is not accepted. Accepted: {', '.join(NAMED_NETWORKS)}, or"
                " networks such as 10.1.0.0/16.",
                field="child_networks",
            ) from None


def _check_origins(items: list[str]) -> None:
    for item in items:
        if not ORIGIN.fullmatch(item):
            raise ConfigError(
                f"Option cors_allowed_origins: {item!r} is not accepted. Accepted: origins as a browser sends"
                " them, scheme and host in lower case and a port that is not the usual one, such as"
                " https://panel.example or http://localhost:3000; no paths and no *.",
                field="cors_allowed_origins",
            )


def _check_ratios(option: str, items: list[str]) -> None:
    try:
        read_ratios(items)
    except ValueError as error:
        raise ConfigError(
            f"Option {option}: {str(error)!r} is not accepted. Accepted: name=number, each name once, several"
            " separated by commas.",
            field=option,
        ) from None


def _check_order(conf: cfg.ConfigOpts, low: str, high: str, *, strict: bool) -> None:
    if conf[low] > conf[high] or (strict and conf[low] == conf[high]):
        bound = "below" if strict else "at most"
        raise ConfigError(
            f"Option {low}: {conf[low]:g} is not accepted. Accepted: {bound} {high} ({conf[high]:g}).",
            field=low,
        )


def _check_needs(conf: cfg.ConfigOpts, needing: str, needed: str) -> None:
    if conf[needing] and not conf[needed]:
        raise ConfigError(f"Option {needing} is set without {needed}. Set both, or neither.", field=needing)


def _check_noauth(conf: cfg.ConfigOpts) -> None:
    if conf.auth_strategy == "noauth" and not conf.noauth_force and not is_loopback(conf.bind_host):
        raise ConfigError(
            f"Option auth_strategy: noauth trusts every caller as admin, and bind_host {conf.bind_host} is"
            " not loopback. Accepted: auth_strategy = http_basic, bind_host = 127.0.0.1, or noauth_force ="
            " true.",
            field="auth_strategy",
        )
