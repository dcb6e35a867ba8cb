"""One zone, assembled: its rows, keys, hosts in memory, children and background work."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from zonesched.broker.contract import Broker
from zonesched.broker.opening import for_process, open_broker
from zonesched.conf import Conf
from zonesched.errors import DatabaseFull
from zonesched.scheduler.base_scheduler import BaseScheduler
from zonesched.scheduler.schedulers import Schedulers
from zonesched.seal.entry_form import blob_size_for
from zonesched.seal.envelope import Envelope
from zonesched.seal.keyring import Keyring
from zonesched.seal.passwords import PERSON, ScryptCost, VerifiedCache
from zonesched.seal.secrets import SecretBox, host_id_for_tenant
from zonesched.seal.tie_keys import TieSecret
from zonesched.seams import Clock, Executor, SystemClock, ThreadExecutor
from zonesched.service_group.contract import ServiceGroup
from zonesched.service_group.opening import open_group
from zonesched.services.state import stored_secrets
from zonesched.services.state.boot_queue import BootQueue
from zonesched.services.state.caller_slots import CallerSlots
from zonesched.services.state.child_rows import StoredChildren
from zonesched.services.state.clock_difference import ClockDifference
from zonesched.services.state.clock_steps import ClockSteps, bring_near
from zonesched.services.state.fences import Fences
from zonesched.services.state.heartbeats import Heartbeats
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.instance_events import EventObserver, Publisher
from zonesched.services.state.listening import Listening
from zonesched.services.state.lost_commits import LostCommits, meet_server
from zonesched.services.state.notifications import Notifications
from zonesched.services.state.password_guard import PasswordGuard
from zonesched.services.state.project_changes import ProjectChanges
from zonesched.services.state.quotas import Quotas
from zonesched.services.state.restored import Restored
from zonesched.services.state.silences import Silences
from zonesched.services.state.sql_hosts import SqlHosts
from zonesched.services.state.store_counts import StoreCounts
from zonesched.services.state.wake import Wake
from zonesched.store import identity, recovery, reservations, schema, services
from zonesched.store.identity import Identity
from zonesched.store.outages import summary
from zonesched.store.reservations import Lease
from zonesched.store.store import Store, StoreError, Transaction
from zonesched.zones.client import ChildClient
from zonesched.zones.transport import HttpTransport, Transport
from zonesched.zones.zone_manager import ZoneManager

log = logging.getLogger(__name__)


@dataclass
class Zone:
    """The parts of one zone that its services use; its seams: `clock`, `executor`, `store`, `transport`."""

    conf: Conf
    uuid: str
    host_id_secret: str = field(repr=False)
    clock: Clock
    clock_steps: ClockSteps
    clock_difference: ClockDifference
    lost_commits: LostCommits
    executor: Executor
    store: Store
    transport: Transport
    keyring: Keyring
    secret_box: SecretBox
    tie_secret: TieSecret
    verified: VerifiedCache
    passwords: PasswordGuard
    schedulers: Schedulers
    schedulers_of_all_hosts: Schedulers
    hosts: HostCache | SqlHosts
    heartbeats: Heartbeats
    fences: Fences
    silences: Silences
    listening: Listening
    notifications: Notifications
    group: ServiceGroup
    children: ZoneManager
    quotas: Quotas
    project_changes: ProjectChanges
    select_slots: CallerSlots
    console_slots: CallerSlots
    boots: BootQueue
    wake: Wake
    counts: StoreCounts
    restored: Restored
    incarnation: str
    opened_at: float
    """When this process opened the zone, in monotonic seconds."""

    @classmethod
    def open(
        cls,
        conf: Conf,
        *,
        clock: Clock | None = None,
        executor: Executor | None = None,
        transport: Transport | None = None,
        store: Store | None = None,
        broker: Broker | None = None,
        group: ServiceGroup | None = None,
        password_cost: ScryptCost = PERSON,
    ) -> Zone:
        """Open the zone of a configuration and migrate its schema; `background.start` starts its loops."""
        clock = clock or SystemClock()
        executor = executor or ThreadExecutor()
        transport = transport or HttpTransport.from_conf(conf, clock)
        store = store or Store.open(conf.database_url)
        store.observer = counts = StoreCounts(clock)
        schema.upgrade(store)
        uuid, host_id_secret, secret_box = _identify(conf, store, clock)
        meet_server(store)
        incarnation, beaten_at = store.read(
            lambda tx: (recovery.incarnation(tx), services.last_of_processes(tx))
        )
        schedulers = Schedulers.from_conf(conf)
        listening = Listening(clock, conf.service_down_time, beaten_at)
        boots, notifications = (
            BootQueue(),
            Notifications(broker or _broker(conf), store, Publisher(uuid, conf.zone_name, clock.new_uuid)),
        )
        if notifications.broker.is_there:
            store.observer = EventObserver(counts, notifications.instances)
        zone = cls(
            conf=conf,
            uuid=uuid,
            host_id_secret=host_id_secret,
            clock=clock,
            clock_steps=ClockSteps(clock),
            clock_difference=ClockDifference(clock, store),
            lost_commits=LostCommits(store),
            executor=executor,
            store=store,
            transport=transport,
            keyring=Keyring.from_conf(conf.build_plan_encryption_key, incarnation),
            secret_box=secret_box,
            tie_secret=TieSecret(host_id_secret),
            verified=VerifiedCache(clock),
            passwords=PasswordGuard(clock, conf.api_threads // 2, password_cost),
            schedulers=schedulers,
            schedulers_of_all_hosts=Schedulers.of_all_hosts(conf)
            if conf.host_source == "sql"
            else schedulers,
            hosts=_hosts(conf, store, clock, listening, schedulers.default),
            heartbeats=Heartbeats(store, clock, conf.service_down_time),
            fences=Fences(store, clock),
            silences=Silences(clock, conf.service_down_time / 2),
            listening=listening,
            group=group or open_group(conf.servicegroup_driver, uuid, "", conf.service_down_time),
            notifications=notifications,
            children=ZoneManager.from_conf(
                conf, StoredChildren(store, secret_box), uuid, clock, executor, transport
            ),
            quotas=Quotas(conf, uuid, store, clock),
            project_changes=ProjectChanges(store, uuid),
            select_slots=CallerSlots(conf.api_threads * 3 // 4),
            console_slots=CallerSlots(conf.api_threads // 4, "consoles"),
            boots=boots,
            wake=Wake(boots, notifications),
            counts=counts,
            restored=Restored(store),
            incarnation=incarnation,
            opened_at=clock.monotonic(),
        )
        # From the first request on: a child that has not answered yet makes an answer incomplete.
        zone.children.refresh()
        return zone

    @property
    def envelope(self) -> Envelope:
        """The envelope of this zone's entries; their size is configured, or as large as its children need."""
        return self.envelope_for(())

    def envelope_for(self, child_blob_sizes: Sequence[int]) -> Envelope:
        """The same, also large enough for child blobs of these sizes, which `zones.client` has accepted."""
        sizes = (*self.children.blob_sizes(), *child_blob_sizes)
        size = self.conf.build_plan_blob_size or blob_size_for(sizes, 0)
        return Envelope(self.keyring, self.clock, ttl_s=self.conf.build_plan_ttl, blob_size=size)

    def tenant_host_id(self, project_id: str, host_id: str) -> str:
        """The host id that a tenant sees: equal for its instances on one host, and tells nothing else."""
        return host_id_for_tenant(self.host_id_secret, project_id, host_id)

    def child_client(self, child_id: str) -> ChildClient:
        """Return a client for one child. Raises ChildUnreachable for one that is no longer registered."""
        return self.children.client(child_id)

    def stop(self) -> None:
        """Let the steps under way end, give back unfinished boots, then close the store.

        Another process can carry such a boot on at once. A step that does not end in time is cut off by that:
        its lease has been given back, so its writes are refused.
        """
        self.boots.close()
        self.executor.stop()
        if unended := self.boots.unended():
            try:
                self.store.write(lambda tx: _give_back(tx, unended))
                self.wake.boots_elsewhere()
                self.notifications.send()
            except (StoreError, DatabaseFull) as error:
                log.error(
                    "unfinished boots go on in other processes once their leases end: %s", summary(error)
                )
        self.notifications.broker.close()
        self.group.close()
        self.store.close()


def process_name(conf: Conf) -> str:
    """The name of this process among the zone's services."""
    return f"{conf.host or socket.gethostname()}:{conf.bind_port}"


def _broker(conf: Conf) -> Broker:
    return open_broker(conf.transport_url, conf.zone_name, for_process(conf.zone_name, process_name(conf)))


def _give_back(tx: Transaction, leases: Sequence[Lease]) -> None:
    for lease in leases:
        reservations.postpone(tx, lease, 0.0)


def _hosts(
    conf: Conf, store: Store, clock: Clock, listening: Listening, scheduler: BaseScheduler
) -> HostCache | SqlHosts:
    if conf.host_source == "sql":
        return SqlHosts(store, listening, scheduler.plugins)
    return HostCache(store, clock, listening, max_age_s=scheduler.hosts_max_age_s)


def _identify(conf: Conf, store: Store, clock: Clock) -> tuple[str, str, SecretBox]:
    """Return the zone's uuid, its own secret and its box of secrets; begin an epoch.

    Raise ConfigError, with nothing written, if the keys of the configuration do not decrypt the secret.
    """

    def box_of(uuid: str) -> SecretBox:
        return SecretBox(conf.secret_encryption_key, uuid, clock)

    new_uuid = clock.new_uuid()
    new = stored_secrets.new_identity(box_of(new_uuid), new_uuid, clock.random_bytes(32).hex())
    epoch_id = clock.random_bytes(16).hex()

    def begin(tx: Transaction) -> tuple[Identity, str]:
        me = identity.identity(tx, new)
        secret = stored_secrets.own_secret(box_of(me.zone_uuid), me)
        identity.begin_epoch(tx, epoch_id)
        bring_near(tx, conf, clock.now())
        return me, secret

    me, secret = store.write(begin)
    box = box_of(me.zone_uuid)
    stored_secrets.encrypt_all(store, box, me)
    return me.zone_uuid, secret, box
