"""The calls of an agent to its zone."""

from __future__ import annotations

import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from zonesched.compute.connection import ZoneConnection, ZoneUnavailable
from zonesched.compute.desired_state import Desired, Observed, Power, RebootType
from zonesched.compute.driver import DRIVER_FAILED
from zonesched.compute.inventory import InventoryHost
from zonesched.compute.machine import ConsoleAsk, Fetched, Key, Report, ReportState, Wanted
from zonesched.compute.restored_zone import Running
from zonesched.compute.state_folder import NO_IDENTITY, AgentIdentity, OtherOwner
from zonesched.compute.usage_ledger import Booked, Claim, HostClass, Statement
from zonesched.model.caller import AGENT_HEADER, AGENT_HOME_HEADER
from zonesched.tracing import Trace

log = logging.getLogger(__name__)

UUID = re.compile(r"[0-9A-Za-z-]{1,64}")
CODE = re.compile(r"[a-z0-9_]{0,64}")
"""Form of a driver's reason."""
BATCH = 500
"""Hosts or reports in one call."""


@dataclass(frozen=True)
class ZoneIdentity:
    """Zone uuid and epoch from the registration; "" before it."""

    name: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class _Part:
    """Wanted instances whose uuids begin with the same digit; `tag`: of the zone, as long as they are so."""

    tag: str
    wanted: tuple[Wanted, ...]


class AgentClient:
    """One agent's calls, under the name of its service. All raise ZoneUnavailable or ZoneRefused.

    `agent`: who it is by its state folder. `admit`: called with the zone's identity before anything is
    registered there; raises OtherOwner and OSError.
    """

    def __init__(
        self,
        connection: ZoneConnection,
        service: str,
        agent: AgentIdentity = NO_IDENTITY,
        admit: Callable[[ZoneIdentity], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._service = service
        self._admit = admit
        sent = {AGENT_HEADER: agent.id, AGENT_HOME_HEADER: agent.home}
        self._headers = {name: value for name, value in sent.items() if value}
        self._parts: Mapping[str, _Part] = {}

    def register(self, hosts: Sequence[InventoryHost], fence_after_s: float = math.inf) -> ZoneIdentity:
        """Register the hosts of the service, with their present inventories; return the zone's identity.

        `fence_after_s`: the promise, as in a heartbeat.
        """
        answer = self._call("GET", "/hosts/registrations", params={"service": self._service})
        try:
            self._admit(_identity(answer))
            for at in range(0, max(1, len(hosts)), BATCH):
                wire = [host.to_wire() for host in hosts[at : at + BATCH]]
                body = {"service": self._service, "hosts": wire, "registrations": answer["registrations"]}
                answer = self._call("PUT", "/hosts", body | _promise(fence_after_s))
            return _identity(answer)
        except (OtherOwner, OSError) as error:
            raise ZoneUnavailable(str(error)) from None
        except (KeyError, TypeError) as error:
            raise _unreadable("PUT /hosts", error) from error

    def beat(self, fence_after_s: float = math.inf) -> None:
        """Send a heartbeat; `fence_after_s`: the promise to end all instances so long after it."""
        self._call("POST", "/hosts/beat", {"service": self._service} | _promise(fence_after_s))

    def fetch(self) -> Fetched:
        """Fetch the instances that should run on the hosts of the service, and those awaited to be gone.

        Parts of the list that are as they were at the last call are not sent again.
        """
        known = ",".join(part.tag for part in self._parts.values())
        params = {"service": self._service, "known": known}
        answer = self._call("GET", "/hosts/instances", params=params)
        try:
            self._parts, untagged = _merged(self._parts, answer)
            wanted = tuple(chain(untagged, *(part.wanted for part in self._parts.values())))
            releasing = tuple(_key(item) for item in answer["releasing"])
            # A zone of an older version asks for none.
            asked = tuple(ConsoleAsk(str(item["id"]), _key(item)) for item in answer.get("consoles", ()))
            # One of an older version was never restored.
            kept = tuple(_key(item) for item in answer.get("kept", ()))
            incarnation, start = str(answer.get("incarnation", "")), str(answer.get("start", ""))
            return Fetched(wanted, releasing, asked, kept, incarnation, start)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _unreadable("GET /hosts/instances", error) from error

    def bring_console(self, ask_id: str, output: str | None) -> None:
        """Bring the output that the zone has asked for by this id; None where the driver can read none."""
        state = "unsupported" if output is None else "read"
        body = {"service": self._service, "id": ask_id, "state": state, "output": output or ""}
        self._call("POST", "/hosts/consoles", body)

    def claims(self) -> Statement:
        """Read the claims on the hosts of the service."""
        answer = self._call("GET", "/hosts/claims", params={"service": self._service})
        try:
            return Statement(
                {
                    _key(item): Claim(str(item["host"]), _amounts(item["resources"]))
                    for item in answer["instances"]
                },
                {
                    (str(item["host"]), str(item["resource_class"])): Booked(
                        int(item["used"]), int(item["held"]), int(item["excess"])
                    )
                    for item in answer["booked"]
                },
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _unreadable("GET /hosts/claims", error) from error

    def report_excesses(self, amounts: Mapping[HostClass, int]) -> None:
        """Report how much more is counted than is claimed; 0 withdraws an earlier report."""
        lines = [
            {"host": host, "resource_class": resource_class, "excess": amount}
            for (host, resource_class), amount in amounts.items()
        ]
        for at in range(0, len(lines), BATCH):
            body = {"service": self._service, "excesses": lines[at : at + BATCH]}
            self._call("POST", "/hosts/excesses", body)

    def tell(self, running: Sequence[Running]) -> None:
        """Tell all that the agent has, whatever the zone wants of it."""
        lines = [
            {
                "uuid": one.key.uuid,
                "attempt": one.key.attempt,
                "host": one.host,
                "is_built": one.is_built,
                "flavor": one.flavor,
                "reason": _code(one.key, one.observed.reason),
                **_state(one.observed),
            }
            for one in running
        ]
        for at in range(0, max(1, len(lines)), BATCH):
            body = {
                "service": self._service,
                "instances": lines[at : at + BATCH],
                "first": at == 0,
                "last": at + BATCH >= len(lines),
            }
            self._call("POST", "/hosts/running", body)

    def report(self, reports: Sequence[Report]) -> None:
        """Report the states of at most BATCH instances."""
        lines = [_line(report) for report in reports]
        self._call("POST", "/hosts/reports", {"service": self._service, "reports": lines})

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
    ) -> Any:
        return self._connection.call(method, path, body, params, self._headers)


def _unreadable(call: str, error: Exception) -> ZoneUnavailable:
    """Say why an answer cannot be read; an older zone leaves out what it does not know yet."""
    if isinstance(error, KeyError):
        return ZoneUnavailable(
            f"the answer of {call} has no {error}: if the zone is older than its agent, upgrade it first"
        )
    return ZoneUnavailable(f"the answer of {call} cannot be read: {error!r}")


def _identity(answer: Mapping[str, Any]) -> ZoneIdentity:
    return ZoneIdentity(str(answer["zone"]["name"]), str(answer["zone"]["uuid"]))


def _promise(fence_after_s: float) -> dict[str, Any]:
    return {} if fence_after_s == math.inf else {"fence_after": fence_after_s}


def _line(report: Report) -> Mapping[str, Any]:
    line = {
        "uuid": report.key.uuid,
        "attempt": report.key.attempt,
        "state": report.state.value,
        "reason": _code(report.key, report.reason),
    }
    if report.state is ReportState.ACTIVE:
        line |= _state(report.observed)
    if report.state is ReportState.LEFT:
        line |= {"left_for": report.left_for}
    return line


def _code(key: Key, reason: str) -> str:
    """Return a driver's reason, or a general one where no zone could take it."""
    if CODE.fullmatch(reason):
        return reason
    log.error("instance %s: the driver's reason is no code: %r", key.uuid, reason)
    return DRIVER_FAILED


def _state(observed: Observed) -> Mapping[str, Any]:
    return {
        "generation": observed.generation,
        "power": observed.power.value,
        "rebuilds": observed.rebuilds,
    }


def _merged(
    known: Mapping[str, _Part], answer: Mapping[str, Any]
) -> tuple[Mapping[str, _Part], Sequence[Wanted]]:
    """Return the parts of the list after an answer, which leaves out known ones, and what is in no part."""
    flavors: dict[str, Mapping[str, Any]] = {}
    sent: defaultdict[str, list[Wanted]] = defaultdict(list)
    for item in answer["instances"]:
        wanted = _wanted(item, flavors)
        sent[wanted.key.uuid[0]].append(wanted)
    parts = {
        digit: known[digit] if digit in known and known[digit].tag == tag else _Part(tag, tuple(sent[digit]))
        for digit, tag in answer["tags"].items()
    }
    return parts, [wanted for digit, some in sent.items() if digit not in parts for wanted in some]


def _wanted(item: Mapping[str, Any], flavors: dict[str, Mapping[str, Any]]) -> Wanted:
    return Wanted(
        key=_key(item),
        host=str(item["host"]),
        name=str(item["name"]),
        flavor=_shared(flavors, item["flavor"]),
        image=item["image"],
        is_active=item.get("status") == "ACTIVE",
        desired=_desired(item["desired"], item["image"]),
        # To a zone of an older version, what it wants is so.
        observed=_observed(item.get("observed", item["desired"])),
        leaves_for=int(item["leaves_for"]),
        moved_from=int(item["moved_from"]),
        trace=Trace(str(item.get("request_id", "")), str(item.get("reservation_id", ""))),
    )


def _desired(item: Mapping[str, Any], image: Mapping[str, Any]) -> Desired:
    return Desired(
        generation=int(item["generation"]),
        power=Power(item["power"]),
        reboots=int(item["reboots"]),
        reboot_type=RebootType(item["reboot_type"]),
        rebuilds=int(item["rebuilds"]),
        image=image,
    )


def _observed(item: Mapping[str, Any]) -> Observed:
    return Observed(int(item["generation"]), Power(item["power"]), rebuilds=int(item["rebuilds"]))


def _shared(flavors: dict[str, Mapping[str, Any]], flavor: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one object for all instances of a flavor: the agent keeps it with each of them."""
    found = flavors.setdefault(str(flavor["id"]), flavor)
    return found if found == flavor else flavor


def _amounts(resources: Mapping[str, Any]) -> Mapping[str, int]:
    return {str(resource_class): int(amount) for resource_class, amount in resources.items()}


def _key(item: Mapping[str, Any]) -> Key:
    """Return the key of one line. Raises ValueError for a uuid that is unusable as a file name."""
    if not UUID.fullmatch(str(item["uuid"])):
        raise ValueError("uuid is none")
    return Key(str(item["uuid"]), int(item["attempt"]))
