"""Dry runs: the result that a boot would have now, by the same select, with no rows written in any zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from zonesched.errors import Forbidden
from zonesched.model.boot_form import BootForm
from zonesched.model.build_plan import BuildPlan, ChildBlob, Entry, FunnelStep, Why
from zonesched.model.caller import Caller, Role
from zonesched.model.decision_trace import NO_TRACE
from zonesched.model.host_row import HostRow
from zonesched.model.local_hosts import FoundHosts
from zonesched.model.request_spec import RequestSpec
from zonesched.model.views import DryRunView
from zonesched.model.work_deadline import always
from zonesched.scheduler.replay import (
    VERSION,
    Record,
    chosen,
    record_to_wire,
    recorded_options,
    spec_to_record,
    table_of,
)
from zonesched.scheduler.sources import Merged, Source
from zonesched.services.boot import boot
from zonesched.services.select import faults, select
from zonesched.services.select.select import Basis, Decision
from zonesched.services.zone import Zone


def dry_run(
    zone: Zone,
    caller: Caller,
    form: BootForm,
    *,
    record: bool,
    is_wanted: Callable[[], bool] = always,
) -> DryRunView:
    """Return how many would fit, where, and what runs out first; with `record`, all inputs of the decision.

    Only an admin sees where; others see a number and reasons. Raises the errors of a boot, Forbidden for
    a record that a caller other than an admin asks for, OverLimit, ZoneBusy, and CallerGone once `is_wanted`
    is false.
    """
    is_admin = caller.role is Role.ADMIN
    if record and not is_admin:
        raise Forbidden("record: only an admin gets a record, since it names hosts.", field="record")
    select.check_ready(zone)
    spec = boot.spec_of(zone, caller, form)
    with zone.select_slots.of_user(caller.user_id):
        zone.quotas.admit_dry_run(caller.project_id)
        if not is_admin:
            zone.quotas.check_fits_quota(caller.project_id, form.num_instances)
        return _run(zone, spec, form, is_wanted, is_admin=is_admin, record=record)


def _run(
    zone: Zone,
    spec: RequestSpec,
    form: BootForm,
    is_wanted: Callable[[], bool],
    *,
    is_admin: bool,
    record: bool,
) -> DryRunView:
    if record:
        hosts = RecordedHosts(*zone.hosts.snapshot())
        decision, basis = select.decide_on(zone, hosts, spec, zone.uuid, select.BEST_HOSTS, is_wanted)
        record_json = record_to_wire(_record(zone, hosts, decision, basis, spec))
    else:
        decision = select.decide(zone, spec, zone.uuid, select.BEST_HOSTS, is_wanted)
        record_json = {}
    plan, trace = decision.plan, decision.trace
    fits = form.num_instances if plan.bundles else len(plan.entries)
    short = fits < form.num_instances
    return DryRunView(
        num_instances=form.num_instances,
        fits=fits,
        complete=plan.complete,
        runs_out=_runs_out(trace.runs_out) if short else (),
        refused_by=tuple(faults.refusals(trace.without_runs_out())) if short else (),
        trace=trace if is_admin else NO_TRACE,
        fits_in=_fits_in(plan) if is_admin else {},
        record=record_json,
    )


def _runs_out(steps: tuple[Why, ...]) -> tuple[tuple[str, str], ...]:
    """Return (resource, code) pairs, those of the most hosts first where hosts were counted."""
    hosts: Counter[tuple[str, str]] = Counter()
    for step in steps:
        counted = step.before - step.after if isinstance(step, FunnelStep) else 0
        hosts[step.filter, step.code] += counted
    return tuple(sorted(hosts, key=lambda key: (-hosts[key], key)))


def _fits_in(plan: BuildPlan) -> Mapping[str, int]:
    """Return how many instances of the plan go to each child, by its id; "" for the local hosts."""
    entries = plan.bundles[0].entries if plan.bundles else plan.entries
    return Counter(e.place.child_id if isinstance(e.place, ChildBlob) else "" for e in entries)


@dataclass(frozen=True)
class RecordedHosts:
    """A snapshot of hosts."""

    rows: tuple[HostRow, ...]
    services_up: Mapping[str, bool]

    @contextmanager
    def for_request(self, spec: RequestSpec) -> Iterator[FoundHosts]:
        """Return all hosts."""
        yield FoundHosts(table_of(self.rows, self.services_up))


def _record(zone: Zone, hosts: RecordedHosts, decision: Decision, basis: Basis, spec: RequestSpec) -> Record:
    plan = decision.plan
    children = {child.child_id: child.name for child in decision.trace.children}
    merged = Merged(plan.entries, plan.alternates, plan.bundles)
    table = table_of(hosts.rows, hosts.services_up)
    return Record(
        record="zonesched",
        version=VERSION,
        zone_uuid=zone.uuid,
        spec=spec_to_record(spec),
        context=basis.request.context,
        zone_capabilities=basis.request.zone_capabilities,
        child_ranges=basis.child_ranges,
        has_children=basis.has_children,
        hosts=hosts.rows,
        services_up=hosts.services_up,
        children=children,
        below=tuple(_without_blobs(source) for source in basis.below),
        options=recorded_options(zone.conf),
        chosen=chosen(table, children, decision.spec, basis.own, merged),
    )


def _without_blobs(source: Source) -> Source:
    def bare(entry: Entry) -> Entry:
        return replace(entry, place=ChildBlob(source.id, ""))

    return replace(
        source,
        entries=tuple(map(bare, source.entries)),
        alternates=tuple(map(bare, source.alternates)),
        bundles=tuple(replace(b, entries=tuple(map(bare, b.entries))) for b in source.bundles),
    )
