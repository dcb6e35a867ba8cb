"""One zone, put together: its rows, its keys, its hosts in memory, its children and its background work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zonesched.conf import Conf
from zonesched.scheduler.schedulers import Schedulers
from zonesched.seal.entry_form import blob_size_for
from zonesched.seal.envelope import Envelope
from zonesched.seal.keyring import Keyring
from zonesched.seal.passwords import VerifiedCache
from zonesched.seal.secrets import SecretBox, host_id_for_tenant
from zonesched.seams import Clock, Executor, Loop, SystemClock, ThreadExecutor
from zonesched.services.child_rows import StoredChildren
from zonesched.services.host_cache import HostCache
from zonesched.store import identity, schema
from zonesched.store.identity import Identity
from zonesched.store.store import Store, Transaction
from zonesched.zones.client import ChildClient
from zonesched.zones.transport import HttpTransport, Transport
from zonesched.zones.zone_manager import ZoneManager


@dataclass
class Zone:
    """What the services of one zone work with; its seams are `clock`, `executor`, `store`, `transport`."""

    conf: Conf
    uuid: str
    host_id_secret: str = field(repr=False)
    clock: Clock
    executor: Executor
    store: Store
    transport: Transport
    keyring: Keyring
    secret_box: SecretBox
    verified: VerifiedCache
    schedulers: Schedulers
    hosts: HostCache
    children: ZoneManager
    boot_loops: list[Loop] = field(default_factory=list)
    call_loops: list[Loop] = field(default_factory=list)
    sync_loops: list[Loop] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        conf: Conf,
        *,
        clock: Clock | None = None,
        executor: Executor | None = None,
        transport: Transport | None = None,
        store: Store | None = None,
    ) -> Zone:
        """The zone of a configuration, its schema brought up to date; background work waits for `start`."""
        clock = clock or SystemClock()
        executor = executor or ThreadExecutor()
        transport = transport or HttpTransport.from_conf(conf, clock)
        store = store or Store.open(conf.database_url)
        schema.upgrade(store)
        new = Identity(clock.new_uuid(), clock.random_bytes(32).hex())
        epoch_id = clock.random_bytes(16).hex()
        me = store.write(lambda tx: _begin(tx, new, epoch_id))
        uuid = me.zone_uuid
        schedulers = Schedulers.from_conf(conf)
        secret_box = SecretBox(conf.secret_encryption_key, uuid, clock)
        zone = cls(
            conf=conf,
            uuid=uuid,
            host_id_secret=me.host_id_secret,
            clock=clock,
            executor=executor,
            store=store,
            transport=transport,
            keyring=Keyring.from_conf(conf.build_plan_encryption_key),
            secret_box=secret_box,
            verified=VerifiedCache(clock),
            schedulers=schedulers,
            hosts=HostCache(
                store, clock, conf.service_down_time, max_age_s=schedulers.default.hosts_max_age_s
            ),
            children=ZoneManager.from_conf(
                conf, StoredChildren(store, secret_box), uuid, clock, executor, transport
            ),
        )
        # Known from the first request on: until they have been heard, what they have is missing.
        zone.children.refresh()
        return zone

    @property
    def envelope(self) -> Envelope:
        """What seals and opens this zone's entries, as large as configured, else as its children need."""
        return self.envelope_for(())

    def envelope_for(self, child_blob_sizes: Sequence[int]) -> Envelope:
        """The same, also large enough for child blobs of these sizes, which `zones.client` has let pass."""
        sizes = (*self.children.blob_sizes(), *child_blob_sizes)
        size = self.conf.build_plan_blob_size or blob_size_for(sizes, 0)
        return Envelope(self.keyring, self.clock, ttl_s=self.conf.build_plan_ttl, blob_size=size)

    def tenant_host_id(self, project_id: str, host_id: str) -> str:
        """What a tenant sees of a host: the same for its instances on one host, and nothing else."""
        return host_id_for_tenant(self.host_id_secret, project_id, host_id)

    def child_client(self, child_id: str) -> ChildClient:
        """How to call one child. Raises ChildUnreachable for one that is no longer registered."""
        return self.children.client(child_id)

    def wake_workers(self) -> None:
        """There is a boot to carry on."""
        wake(self.boot_loops)

    def wake_callers(self) -> None:
        """There is a child to be told something."""
        wake(self.call_loops)

    def wake_sync(self) -> None:
        """There is a child that has something to build."""
        wake(self.sync_loops)

    def stop(self) -> None:
        """Let the background work end and give the store back."""
        self.executor.stop()
        self.store.close()


def _begin(tx: Transaction, new: Identity, epoch_id: str) -> Identity:
    me = identity.identity(tx, new)
    identity.begin_epoch(tx, epoch_id)
    return me


def wake(loops: Sequence[Loop]) -> None:
    """Start the loops' next step now."""
    for loop in loops:
        loop.wake()
