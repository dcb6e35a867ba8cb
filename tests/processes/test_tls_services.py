"""PostgreSQL and Redis over TLS: names are checked, and no refusal shows a password."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from cryptography import x509

from tests.builders.private_servers import Server, postgresql, redis
from tests.builders.raw_server import Authority
from zonesched import conf as options
from zonesched.errors import ConfigError
from zonesched.seal.shortcomings import shortcomings
from zonesched.service_group.contract import GroupUnavailable
from zonesched.service_group.opening import open_group
from zonesched.serving.run_zone import prepare
from zonesched.store import schema
from zonesched.store.store import Store, StoreError

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]

PASSWORD = "sekret"
CERTIFIED = "db.example.org"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def database(authority: Authority) -> Iterator[Server]:
    with postgresql(authority.server_pem(x509.DNSName(CERTIFIED)), PASSWORD) as server:
        yield server


def url_of(server: Server, authority: Authority, host: str, password: str = PASSWORD, more: str = "") -> str:
    """A server on another machine for libpq, by its name; the address spares its look-up."""
    where = f"{host}:{server.port}/postgres?hostaddr=127.0.0.1&sslrootcert={authority.ca_file}{more}"
    return f"postgresql+psycopg://zonesched:{password}@{where}"


def refusal(url: str, tmp_path: Path, **more: object) -> str:
    """The line with which a zone refuses to start."""
    overrides = {"database_url": url, "state_path": str(tmp_path / "state"), **more}
    with pytest.raises(ConfigError) as refused:
        prepare(options.load(overrides=overrides))
    return click.ClickException(refused.value.message).format_message()


def test_a_database_with_a_certificate_for_its_name_is_used(database: Server, authority: Authority) -> None:
    with closing(Store.open(url_of(database, authority, CERTIFIED))) as store:
        assert schema.state(store) is schema.SchemaState.EMPTY
        is_tls = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert store.read(lambda tx: tx.exec_driver_sql(is_tls).scalar_one()) is True


def test_a_database_with_a_certificate_for_another_name_is_refused(
    database: Server, authority: Authority, tmp_path: Path
) -> None:
    told = refusal(url_of(database, authority, "other.example.org"), tmp_path)
    assert "does not match host name" in told
    assert PASSWORD not in told


def test_a_database_without_checked_names_is_used_where_that_is_allowed_and_named_each_time(
    database: Server, authority: Authority, tmp_path: Path
) -> None:
    url = url_of(database, authority, "other.example.org", more="&sslmode=require").replace(
        f"&sslrootcert={authority.ca_file}", ""
    )
    assert "allow_unverified_services" in refusal(url, tmp_path)
    conf = options.load(overrides={"database_url": url, "allow_unverified_services": True})
    [line] = [line for line in shortcomings(conf) if "database_url" in line]
    assert "allow_unverified_services is set" in line
    assert PASSWORD not in line
    with closing(Store.open(conf.database_url)) as store:
        assert store.read(lambda tx: tx.exec_driver_sql("SELECT 1").scalar_one()) == 1


@pytest.mark.parametrize("password", ["wrong-sekret", "wrong%40sekret", "wrong@sekret"])
def test_a_refused_password_of_the_database_is_not_shown(
    database: Server, authority: Authority, tmp_path: Path, password: str
) -> None:
    told = refusal(url_of(database, authority, CERTIFIED, password), tmp_path)
    assert told.startswith("Option database_url: ")
    assert "sekret" not in told


def test_an_unreachable_database_is_named_without_its_password() -> None:
    url = "postgresql+psycopg://zonesched:sekret@127.0.0.1:1/zone"
    with closing(Store.open(url)) as store, pytest.raises(StoreError) as failed:
        store.read(lambda tx: None)
    assert "sekret" not in str(failed.value)


@pytest.mark.parametrize(("certified", "is_joined"), [("localhost", True), ("other.example.org", False)])
def test_a_redis_is_joined_if_its_certificate_is_for_its_name(
    tmp_path: Path, authority: Authority, certified: str, is_joined: bool
) -> None:
    with redis(tmp_path / "redis", authority.server_pem(x509.DNSName(certified)), PASSWORD) as server:
        where = f"localhost:{server.port}?ssl_ca_certs={authority.ca_file}&ssl=false"
        group = open_group(f"rediss://:{PASSWORD}@{where}", "zone", "one", 5.0)
        with closing(group):
            if is_joined:
                group.beat()
                assert group.members() == {"one"}
                return
            with pytest.raises(GroupUnavailable) as refused:
                group.beat()
    assert "certificate" in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["redis://:wrong-sekret@127.0.0.1:{port}", "redis://:wrong@sekret@127.0.0.1:{port}"]
)
def test_a_refused_password_of_a_redis_is_told_soon_and_not_shown(tmp_path: Path, url: str) -> None:
    with (
        redis(tmp_path / "redis", password=PASSWORD) as server,
        closing(open_group(url.format(port=server.port), "zone", "one", 5.0)) as group,
        pytest.raises(GroupUnavailable) as refused,
    ):
        started_at = time.monotonic()
        group.beat()
    # By themselves, tooz and its client repeat it for a minute.
    assert time.monotonic() - started_at < 15
    assert "sekret" not in str(refused.value)
