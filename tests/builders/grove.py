"""Zones that stay and are planted anew: starting thirty takes seconds, giving them other hosts does not.

Every example uses what the ones before it have left: tables in memory that must forget, rows that were ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.builders.reference import FlatHost, tie_of
from tests.builders.tree import Tree
from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.place import LocalPlace
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import content_digest
from zonesched.model.views import HostForm, InventoryForm
from zonesched.seal.envelope import Bound, OpenedEntry
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.hosts import hosts

OPTION_OF = {
    "RAMWeigher": "ram_weight_multiplier",
    "CPUWeigher": "cpu_weight_multiplier",
    "DiskWeigher": "disk_weight_multiplier",
}


@dataclass(frozen=True)
class Plot:
    """One zone of a tree: the number of its parent's plot (none for the first), and its hosts."""

    parent: int
    hosts: tuple[FlatHost, ...]


def form_of(host: FlatHost) -> HostForm:
    """The host as its agent reports it."""
    inventories = {
        "VCPU": InventoryForm(host.vcpus, allocation_ratio=host.cpu_ratio),
        "MEMORY_MB": InventoryForm(host.ram_mb, host.reserved_mb, host.ram_ratio),
        "DISK_GB": InventoryForm(host.disk_gb),
    }
    used = {name: form for name, form in inventories.items() if form.total}
    return HostForm(host.name, "10.0.0.1", "az1", used, traits=host.traits)


class Grove:
    """A tree of up to `size` zones that can be replanted."""

    def __init__(self, folder: Path, size: int) -> None:
        self.tree = Tree(folder)
        self.names = [f"z{number}" for number in range(size)]
        self._ids: dict[str, dict[str, str]] = {name: {} for name in self.names}
        """The ids of all hosts that a zone ever had, by their names."""
        self._child_of: dict[str, str] = {}
        for name in self.names:
            self.tree.add(name)

    def plant(self, plots: Sequence[Plot], multipliers: Mapping[str, float]) -> list[FlatHost]:
        """Make the first zones this tree; all its hosts, each with the name that `names_of` gives."""
        self._uproot()
        root = self.tree.nodes[self.names[0]]
        for weigher, option in OPTION_OF.items():
            root.zone.conf.set_override(option, multipliers[weigher])
        self.tree.restart(root.name)
        everything: list[FlatHost] = []
        for name, plot in zip(self.names, plots, strict=False):
            if plot.parent >= 0:
                self._child_of[self.tree.join(self.names[plot.parent], name)] = name
            everything += self._register(name, plot.hosts)
        self._poll(len(plots))
        return everything

    @contextmanager
    def asking_by(self, select_page: int) -> Iterator[None]:
        """Let every zone ask its children for at least so many offers, until the block ends."""
        # A root is started anew for each example, with the options that it had.
        for node in self.tree.nodes.values():
            node.zone.conf.set_override("select_page", select_page)
        yield
        for node in self.tree.nodes.values():
            node.zone.conf.clear_override("select_page")

    def questions(self) -> int:
        """The number of selects that zones have sent to their children."""
        return sum(sent.url.endswith("/zones/select") for sent in self.tree.network.sent)

    def _uproot(self) -> None:
        for node in self.tree.nodes.values():
            for known in node.zone.children.snapshot():
                children.remove(node.zone, known.child.id, force=True)
        self._child_of.clear()

    def _register(self, name: str, wanted: Sequence[FlatHost]) -> list[FlatHost]:
        named = [replace(host, name=f"{name}-{number}") for number, host in enumerate(wanted)]
        wanted_names = {host.name for host in named}
        left = self._ids[name].keys() - wanted_names
        self.tree.register(name, [form_of(h) for h in [*named, *(FlatHost(n, 0, 0, 0) for n in left)]])
        if not wanted_names <= self._ids[name].keys():
            found = hosts.list_hypervisors(self.tree.nodes[name].zone)
            self._ids[name] = {view.name: view.id for view in found}
        return named

    def _poll(self, count: int) -> None:
        # Every zone comes after its parent: what is below is known by the time that it is asked for.
        for name in reversed(self.names[:count]):
            self.tree.nodes[name].zone.children.poll()

    def ties(self, spec: RequestSpec) -> Callable[[str, int], int]:
        """The tie keys of a request to the root, by a host's name and the instances on it."""
        parents = {child: parent for parent, child in self._edges()}
        ids: dict[str, tuple[str, str]] = {}
        for name in self.names:
            zone = self.tree.nodes[name].zone
            caller_id = caller_of(self.tree, parents[name], name) if name in parents else zone.uuid
            key = zone.tie_secret.request_key(caller_id, spec.request_id, content_digest(spec))
            ids |= {host: (key, id) for host, id in self._ids[name].items()}
        return lambda name, copies: tie_of(*ids[name], copies)

    def _edges(self) -> Iterator[tuple[str, str]]:
        for name in self.names:
            for known in self.tree.nodes[name].zone.children.snapshot():
                yield name, self._child_of[known.child.id]

    def names_of(self, spec: RequestSpec, places: Iterable[EntryPlace]) -> list[str]:
        """The host of each place of the root's plan, found by opening entry by entry, zone by zone."""
        return Opener(self.tree, self._child_of, self._ids, spec).names_at(self.names[0], list(places))


def caller_of(tree: Tree, parent: str, name: str) -> str:
    """The id of the user that one zone is in its child."""
    zone = tree.nodes[name].zone
    return next(user.id for user in users.list_users(zone.store) if user.name == f"parent-{parent}")


class Opener:
    """Opens sealed entries as each zone would for its own parent, and no other."""

    def __init__(
        self, tree: Tree, child_of: Mapping[str, str], ids: Mapping[str, Mapping[str, str]], spec: RequestSpec
    ) -> None:
        """`ids`: of the hosts of each zone, by their names."""
        self._tree = tree
        self._child_of = child_of
        self._ids = ids
        self._spec = spec

    def names_at(self, zone_name: str, places: Sequence[EntryPlace]) -> list[str]:
        """The names of hosts that these places, as the zone has them, come to."""
        own = {id: name for name, id in self._ids[zone_name].items()}
        blobs: dict[str, list[str]] = defaultdict(list)
        for place in places:
            if isinstance(place, ChildBlob):
                blobs[self._child_of[place.child_id]].append(place.blob)
        below = {child: iter(self._open(zone_name, child, found)) for child, found in blobs.items()}
        return [
            own[place.host_id]
            if isinstance(place, LocalPlace)
            else next(below[self._child_of[place.child_id]])
            for place in places
        ]

    def _open(self, parent: str, name: str, blobs: Sequence[str]) -> list[str]:
        zone = self._tree.nodes[name].zone
        caller_id = caller_of(self._tree, parent, name)
        bound = Bound(zone.uuid, caller_id, self._spec.project_id, content_digest(self._spec))
        return self.names_at(name, [_place(e) for e in zone.envelope.open_entries(bound, blobs)])


def _place(opened: object) -> EntryPlace:
    assert isinstance(opened, OpenedEntry), opened
    match opened.place:
        case LocalPlace(host_id):
            return LocalPlace(host_id)
        case ChildBlob(child_id, blob):
            return ChildBlob(child_id, blob)
