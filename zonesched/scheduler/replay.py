"""Replay of a recorded decision: the same hosts and request, with the same or other options.

A record holds the input of a zone's decision (the request, the state of its hosts, the offers of its
children) and its result. A replay reads nothing else, so the same options give the same choice, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from zonesched.conf import Conf
from zonesched.conf.hosts import HOSTS
from zonesched.conf.scheduler import SCHEDULER
from zonesched.errors import BadRequest
from zonesched.model.build_plan import Entry
from zonesched.model.decision_trace import LocalTrace
from zonesched.model.host_row import HostRow
from zonesched.model.host_table import HostTable
from zonesched.model.json_shape import DEEPEST, nests_deeper
from zonesched.model.place import LocalPlace
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import RequestSpec, Unweighed
from zonesched.model.request_wire import spec_from_row, spec_to_row
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.scale import Range
from zonesched.scheduler.schedulers import Schedulers
from zonesched.scheduler.sources import Merged, Source, merge_sources, own_source

VERSION: Literal[1] = 1


@dataclass(frozen=True)
class Choice:
    """One pick: `place` is the name of a local host or of a child (a bundle counts once)."""

    place: str
    weight: int


@dataclass(frozen=True)
class Chosen:
    """Result of a decision: the picks in order (bundles for an affinity request) and the local funnel."""

    picks: tuple[Choice, ...]
    alternates: tuple[Choice, ...]
    own: LocalTrace


@dataclass(frozen=True)
class Record:
    """The complete input of a decision, and its result.

    `options`: the scheduler's options by name. `children`: the names of children by id. `below`: the offers
    of the children with this zone's weights, without blobs. `spec`: a row of `spec_to_row` without weighing.
    """

    record: Literal["zonesched"]
    version: Literal[1]
    zone_uuid: str
    spec: Mapping[str, Any]
    context: RequestContext
    zone_capabilities: Mapping[str, frozenset[str]]
    child_ranges: Mapping[str, Range]
    has_children: bool
    hosts: tuple[HostRow, ...]
    services_up: Mapping[str, bool]
    children: Mapping[str, str]
    below: tuple[Source, ...]
    options: Mapping[str, Any]
    chosen: Chosen


@cache
def _adapter() -> TypeAdapter[Record]:
    """Return the adapter of records, which few processes use and which takes 20 ms to build."""
    return TypeAdapter(Record)


def recorded_options(conf: Conf) -> dict[str, Any]:
    """Return the options that schedulers, filters and weighers read."""
    return {option.name: conf[option.name] for option in (*SCHEDULER, *HOSTS)}


def record_to_wire(record: Record) -> dict[str, Any]:
    """Return the record as a JSON object."""
    wire: dict[str, Any] = _adapter().dump_python(record, mode="json")
    return wire


def record_from_text(unverified: bytes) -> Record:
    """Return the record in a file's content. Raise BadRequest, which names the fault, for other content."""
    if nests_deeper(unverified, DEEPEST):
        raise _invalid(f"it nests deeper than {DEEPEST} levels")
    try:
        wire = json.loads(unverified)
    except ValueError as error:
        raise _invalid(f"it is not JSON ({error})") from None
    if not isinstance(wire, dict) or wire.get("record") != "zonesched":
        raise _invalid('it has no member "record": "zonesched"')
    if wire.get("version") != VERSION:
        raise _invalid(f"its version is {wire.get('version')!r}; this program reads {VERSION}")
    try:
        found = _adapter().validate_python(wire)
        _spec(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid(f"spec: {error!r}") from None
    return found


def _invalid(what: str) -> BadRequest:
    return BadRequest(f"This is not a record of a decision: {what}.", code="record_invalid")


def spec_to_record(spec: RequestSpec) -> dict[str, Any]:
    """Return the spec without a weighing, in the form of a record."""
    row = spec_to_row(spec)
    del row["weighing"]
    return row


def _spec(record: Record) -> RequestSpec:
    return spec_from_row({**record.spec, "weighing": {"name": "unweighed"}})


def table_of(hosts: Sequence[HostRow], services_up: Mapping[str, bool]) -> HostTable:
    """Return a table of the hosts."""
    table = HostTable()
    table.apply(hosts)
    table.set_services_up(services_up)
    return table


def replay(record: Record, conf: Conf) -> Chosen:
    """Decide again with these options. Raise ConfigError, BadRequest, FilterFailed, WeigherFailed."""
    table = table_of(record.hosts, record.services_up)
    request = OfferRequest(table, _spec(record), record.context, record.zone_capabilities)
    assert isinstance(request.spec.weighing, Unweighed)
    schedulers = Schedulers.of_all_hosts(conf)
    scheduler, request = schedulers.prepare(request, record.child_ranges, record.has_children)
    own = scheduler.offer(request)
    mine = own_source(record.zone_uuid, request.spec, own)
    merged = merge_sources([mine, *record.below], request.spec.num_instances, request.spec.alternates)
    return chosen(table, record.children, request.spec, own, merged)


def chosen(
    table: HostTable, children: Mapping[str, str], spec: RequestSpec, own: Offer, merged: Merged
) -> Chosen:
    """Return the plan with the names of its places, and the funnel of the local hosts."""

    def choice(entry: Entry) -> Choice:
        match entry.place:
            case LocalPlace(host_id):
                return Choice(table.name(table.row_of(host_id)), entry.weight)
            case child:
                return Choice(children[child.child_id], entry.weight)

    bundles = [Choice(choice(bundle.entries[0]).place, bundle.weight) for bundle in merged.bundles]
    offered = spec.num_instances if own.bundles else len(own.picks)
    return Chosen(
        picks=(*map(choice, merged.entries), *bundles[:1]),
        alternates=(*map(choice, merged.alternates), *bundles[1:]),
        own=LocalTrace(own.why, offered, own.runs_out),
    )
