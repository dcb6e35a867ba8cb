"""The keys that a zone seals its entries with, each found by its id and never by trial.

An id is 8 bytes derived from its key, so the configuration lists keys and nothing else. To change the sealing
key, put the new key first and restart; keep the old key in the list until its last entry has expired.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from zonesched.conf import SAMPLE_KEY
from zonesched.errors import ConfigError, Unavailable

KEY_BYTES = 32
KEY_ID_BYTES = 8

_OPTION = "build_plan_encryption_key"
_ID_INFO = b"zonesched/key-id/v1"
_INCARNATION_INFO = b"zonesched/incarnation/v1"
_SUBKEY_INFO = b"zonesched/entry/v1"
_NO_KEY = bytes(KEY_BYTES)


@dataclass(frozen=True)
class Subkey:
    """The key of one answer's entries; a stand-in, whose entries are all refused, if `known` is false."""

    key: bytes = field(repr=False)
    known: bool


@dataclass(frozen=True)
class Keyring:
    """Keys by id; the first key of the configuration seals, all keys open.

    `refusal` tells the operator why this zone cannot seal; it is empty if the zone can.
    """

    sealing_id: bytes
    refusal: str
    keys: Mapping[bytes, bytes] = field(repr=False)

    @classmethod
    def from_conf(cls, keys: Sequence[str], incarnation: str = "") -> Keyring:
        """Return the keyring of a list of keys in hex.

        A zone that was restored from a copy has other keys in each `incarnation`: it has forgotten which
        entries of the one before were used.

        A list that is empty or has an unusable key (published, or not of 32 bytes) gives a keyring that
        neither seals nor opens. Raise ConfigError for a key that is not hex.
        """
        refusal = _refusal(keys)
        if refusal:
            return cls(sealing_id=b"", refusal=refusal, keys={})
        raw = [_in(incarnation, bytes.fromhex(key)) for key in keys]
        return cls(sealing_id=_key_id(raw[0]), refusal="", keys={_key_id(key): key for key in raw})

    @property
    def can_seal(self) -> bool:
        """Tell whether this zone can offer its hosts to a parent."""
        return not self.refusal

    def sealing_subkey(self, salt: bytes) -> bytes:
        """Return the key of one new answer, 32 bytes. Raise Unavailable (zone_has_no_key)."""
        if not self.can_seal:
            raise Unavailable("This zone has no key to seal build plans with.", code="zone_has_no_key")
        return derive(self.keys[self.sealing_id], salt, _SUBKEY_INFO)

    def opening_subkey(self, key_id: bytes, salt: bytes) -> Subkey:
        """Return the key of an earlier answer; an unknown id costs the same derivation as a known one."""
        known = key_id in self.keys
        return Subkey(key=derive(self.keys.get(key_id, _NO_KEY), salt, _SUBKEY_INFO), known=known)


def derive(key: bytes, salt: bytes, info: bytes, length: int = KEY_BYTES) -> bytes:
    """Return HKDF-SHA256 (RFC 5869) of a key, `length` bytes; `info` separates the uses of one key."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(key)


def key_from_hex(option: str, text: str) -> bytes:
    """Return a configured key of 32 bytes. Raise ConfigError, which names the option and never the key."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", text) is None:
        raise ConfigError(f"Option {option}: a key is 64 hex digits.", field=option)
    return bytes.fromhex(text)


def _in(incarnation: str, key: bytes) -> bytes:
    return derive(key, incarnation.encode(), _INCARNATION_INFO) if incarnation else key


def _key_id(key: bytes) -> bytes:
    return derive(key, b"", _ID_INFO, KEY_ID_BYTES)


def _refusal(keys: Sequence[str]) -> str:
    if not keys:
        return f"{_OPTION} is not set"
    for position, key in enumerate(keys, start=1):
        if re.fullmatch(r"[0-9a-fA-F]+", key) is None:
            raise ConfigError(f"Option {_OPTION}: a key is 64 hex digits.", field=_OPTION)
        if key.lower() == SAMPLE_KEY:
            return f"key {position} of {_OPTION} is the published key of the sample"
        if len(key) != 2 * KEY_BYTES:
            return f"key {position} of {_OPTION} has {len(key)} hex digits where 64 are needed"
    return ""
