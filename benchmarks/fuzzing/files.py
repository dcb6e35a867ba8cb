"""Targets of files that people write: inventories, trees of zones, configurations and credentials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.target import Check, Target, Work
from zonesched import conf
from zonesched.cli.federation_file import read_tree
from zonesched.compute.credentials import CredentialsError, read_credentials
from zonesched.compute.inventory import read_inventory
from zonesched.compute.inventory_fields import InventoryError
from zonesched.errors import ConfigError

CSV = """name,address,availability_zone,VCPU,VCPU.ratio,RAM.reserved,RAM,capabilities,traits,metrics
# a comment
host-1,10.0.0.1,rack-1,32,4.0,2048,131072,kind=general;gpu=2,HW_CPU_X86_AVX2;SSD,load=0.5
host-2,,,8,,,1024,,,
"""
JSON = [
    {
        "name": "host-1",
        "address": "10.0.0.1",
        "availability_zone": "rack-1",
        "inventories": {"VCPU": {"total": 8, "reserved": 1, "ratio": 2.0}, "CUSTOM_X": {"total": 1}},
        "capabilities": {"kind": "a", "cpu_info": {"features": ["aes"]}},
        "traits": ["SSD"],
        "metrics": {"load": 0.5},
    },
    {"name": "host-2", "inventories": {}},
]
TREE = """[zones.root]
credentials = "admin.credentials"
children = ["leaf"]
[zones.leaf]
credentials = "admin.credentials"
url = "https://leaf.example:8774"
weight_offset = 1
weight_scale = 2.5
[zones.leaf.users.agent]
role = "compute"
save = "agent.credentials"
[zones.leaf.users.ann]
role = "member"
project = "p"
password_file = "ann"
"""
CONFIG = """[DEFAULT]
zone_name = leaf
bind_port = 8774
zone_capabilities = tier=gold;silver, gpu=yes
metrics_weight_setting = load=1.0, heat=-0.5
least_cost_functions = compute_fill_first_cost_fn=1.0
child_networks = private, 10.1.0.0/16
build_plan_encryption_key = abababababababababababababababababababababababababababababababab
build_plan_blob_size = 512
hold = 30
"""
CREDENTIALS = "[zonesched]\nurl = http://127.0.0.1:8790\nusername = admin\npassword = secret\n"

_PIECES = (
    "",
    "\n",
    "\r",
    "\x1c",
    "\u2028",
    "\0",
    '"',
    "'''",
    "=",
    "==",
    ";",
    ",",
    "[",
    "]]",
    "[" * 5000,
    "{" * 5000,
    "a." * 3000,
    "9" * 5000,
    "1e999",
    "nan",
    "-1",
    "1_0",
    "0x",
    "$",
    "${zone_name}",
    "%(zone_name)s",
    "#",
    "1979-05-27",
    "a" * 200_000,
    "é",
)


@st.composite
def changed_texts(draw: DrawFn, text: str) -> bytes:
    """A file's text, changed in up to three places; now and then not even UTF-8."""
    for _ in range(draw(st.integers(0, 3))):
        words = text.replace("\n", " \n ").split(" ")
        at = draw(st.integers(0, len(text)))
        to = draw(st.integers(at, min(len(text), at + 30)))
        piece = draw(st.sampled_from(_PIECES) | hostile.words | st.sampled_from(words))
        text = text[:at] + text[at:to] * draw(st.sampled_from((0, 1, 2, 20))) + piece + text[to:]
    data = text.encode("utf-8", "surrogatepass")
    return data + b"\xff" if not draw(st.integers(0, 30)) else data


def _reading(name: str, read: Callable[[Path], Any], *faults: type[Exception]) -> Callable[[Path], Any]:
    """`opened` of a target that writes a file and reads it; only `faults` may be raised."""

    @contextmanager
    def opened(folder: Path) -> Iterator[Check]:
        (folder / "admin.credentials").write_text(CREDENTIALS)

        def check(data: bytes) -> Work:
            path = folder / name
            path.write_bytes(data)
            try:
                read(path)
            except faults as fault:
                assert str(fault), "the fault has no words"
            return Work(len(data))

        yield check

    return opened


def _read_inventory(path: Path) -> None:
    """Whatever is read can be sent to a zone."""
    for host in read_inventory(path):
        json.dumps(host.to_wire(), allow_nan=False)


def _json_inventories() -> SearchStrategy[bytes]:
    return hostile.json_bytes(hostile.mutated(st.just(JSON), ("VCPU", "total", "ratio", 2.0)))


TARGETS = (
    Target(
        "inventory-csv",
        "an agent's inventory, CSV",
        lambda: changed_texts(CSV),
        _reading("i.csv", _read_inventory, InventoryError),
    ),
    Target(
        "inventory-json",
        "an agent's inventory, JSON",
        _json_inventories,
        _reading("i.json", _read_inventory, InventoryError),
    ),
    Target(
        "federation",
        "the file of a tree of zones",
        lambda: changed_texts(TREE),
        _reading("t.toml", read_tree, ConfigError, CredentialsError),
    ),
    Target(
        "config",
        "a zone's configuration",
        lambda: changed_texts(CONFIG),
        _reading("zone.conf", lambda path: conf.load([str(path)]), ConfigError),
    ),
    Target(
        "credentials",
        "a file of credentials",
        lambda: changed_texts(CREDENTIALS),
        _reading("c", read_credentials, CredentialsError),
    ),
)
