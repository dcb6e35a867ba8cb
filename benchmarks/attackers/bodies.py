"""Bodies that cost much more to read than to send."""

from __future__ import annotations

import gzip

MIB = 2**20


def deep(levels: int) -> bytes:
    """Lists in lists that never end."""
    return b'{"server":' + b"[" * levels


def deep_objects(levels: int) -> bytes:
    """Objects in objects, well formed."""
    return b'{"a":' * levels + b"1" + b"}" * levels


def quotes(size: int) -> bytes:
    """Escaped quotes in a string without an end."""
    return b'{"server":"' + b'\\"' * (size // 2)


def backslashes(size: int) -> bytes:
    return b'{"server":"' + b"\\\\" * (size // 2)


def many_values(key: str, size: int) -> bytes:
    """A list of numbers under one key, as many as go into `size` bytes."""
    return f'{{"{key}":['.encode() + b"0," * (size // 2) + b"0]}"


def many_keys(size: int) -> bytes:
    """Unknown keys, each with an empty object."""
    count = size // 14
    return b"{" + b",".join(b'"%08x":{}' % number for number in range(count)) + b"}"


def many_objects(key: str, size: int) -> bytes:
    return f'{{"{key}":['.encode() + b"{}," * (size // 3) + b"{}]}"


def long_number(size: int) -> bytes:
    return b'{"server":' + b"9" * size + b"}"


def zeros_compressed(size: int) -> bytes:
    """A gzip file of so many spaces around an object."""
    return gzip.compress(b" " * size + b"{}")


def bombs(key: str, size: int) -> list[bytes]:
    """One body of each kind with about so many bytes."""
    return [
        many_values(key, size),
        many_keys(size),
        many_objects(key, size),
        deep(size),
        deep_objects(size // 7),
        quotes(size),
        backslashes(size),
        long_number(size),
    ]
