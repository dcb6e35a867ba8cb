"""Check of a configuration that the start of a zone and `zonesched config check` share."""

from __future__ import annotations

from pathlib import Path

from zonesched.conf import Conf
from zonesched.conf.ports import is_port_free
from zonesched.conf.private_files import refuse_if_shared
from zonesched.conf.writable_files import check_file, check_folder
from zonesched.scheduler.schedulers import Schedulers
from zonesched.seal.keyring import Keyring
from zonesched.seal.secrets import SecretBox
from zonesched.seams import SystemClock
from zonesched.serving import tls
from zonesched.store.store import check_url
from zonesched.zones.transport import HttpTransport


def check_start(conf: Conf) -> None:
    """Raise ConfigError for options that no zone can start with, though each has an accepted form.

    The plugins, keys and files that they name are read. Nothing is written, no database is connected to, and
    a port that is in use passes.
    """
    clock, state = SystemClock(), Path(conf.state_path)
    is_port_free(conf.bind_host, conf.bind_port)
    check_folder(state, "state_path")
    refuse_if_shared(state, "state_path")
    if conf.audit_log:
        check_file(Path(conf.audit_log), "audit_log", made=state)
    check_url(conf.database_url)
    Keyring.from_conf(conf.build_plan_encryption_key)
    SecretBox(conf.secret_encryption_key, "", clock)
    tls.socket_maker(conf)
    HttpTransport.from_conf(conf, clock).close()
    Schedulers.from_conf(conf)
