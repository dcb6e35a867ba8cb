"""URLs of a zone's services: which of them need to be allowed, the TLS asked for, and the form shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from kombu import Connection

from zonesched import conf as options
from zonesched.errors import ConfigError
from zonesched.remote_services import is_protected, masked, with_checked_names
from zonesched.store.store import Store

POSTGRESQL = "postgresql+psycopg://zone:secret@db.example.org/zone"


@pytest.mark.parametrize(
    ("url", "protected"),
    [
        ("", True),
        ("db", True),
        ("sqlite:////srv/zone@home/zone.sqlite", True),
        (POSTGRESQL, True),
        (POSTGRESQL + "?sslmode=verify-full", True),
        (POSTGRESQL + "?sslmode=verify-ca", False),
        (POSTGRESQL + "?sslmode=require", False),
        (POSTGRESQL + "?sslmode=disable", False),
        ("postgresql+psycopg://zone@127.0.0.1/zone?sslmode=disable", True),
        ("postgresql+psycopg:///zone?host=/run/postgresql&sslmode=disable", True),
        ("postgresql+psycopg:///zone?host=10.0.0.5&sslmode=disable", False),
        ("postgresql+psycopg://zone@127.0.0.1/zone?host=127.0.0.1:1&host=10.0.0.5:1&sslmode=disable", False),
        ("postgresql+psycopg://zone@localhost/zone?hostaddr=10.0.0.5&sslmode=disable", False),
        ("postgresql+psycopg:///zone?service=elsewhere&sslmode=disable", False),
        ("amqp://zone:secret@127.0.0.1:5672//", True),
        ("amqp://zone:secret@[::1]:5672//", True),
        ("amqp://zone:secret@10.0.0.6:5672//", False),
        ("amqp://127.0.0.1//;amqp://10.0.0.6//", False),
        ("amqps://10.0.0.6//", True),
        ("amqps://10.0.0.6//?ssl_cert_reqs=none", False),
        ("redis://127.0.0.1:6379", True),
        ("redis://10.0.0.6:6379", False),
        ("redis://10.0.0.6:6379?ssl=true", True),
        ("redis://10.0.0.6:6379?ssl=true&ssl=false", False),
        ("redis://127.0.0.1:6379?sentinel=one", False),
        ("redis://10.0.0.6:6379?sentinel=one&ssl=true", False),
        ("redis://127.0.0.1:6379?sentinel_fallback=10.0.0.6:1", False),
        ("rediss://10.0.0.6:6379", True),
        ("memcached://127.0.0.1", True),
        ("memcached://10.0.0.6", False),
        ("memcached://10.0.0.6?use_ssl=true", False),
        ("memcached://10.0.0.6?use_ssl=true&ssl_check_hostname=true", True),
        # kazoo looks at no name.
        ("zookeeper://10.0.0.6:2281?use_ssl=true", False),
        ("zookeeper://127.0.0.1?hosts=10.0.0.6:2181", False),
        ("etcd3+http://10.0.0.6:2379", False),
        ("etcd3+https://10.0.0.6:2379", True),
        ("mysql://10.0.0.6/zone", False),
    ],
)
def test_what_leaves_this_machine_needs_tls_that_checks_names(url: str, protected: bool) -> None:
    assert is_protected(url) is protected


@pytest.mark.parametrize(
    ("option", "url"),
    [
        ("transport_url", "amqp://zone:sekret@10.0.0.6:5672//"),
        ("servicegroup_driver", "redis://:sekret@10.0.0.6:6379"),
        ("servicegroup_driver", "memcached://10.0.0.6:11211"),
        ("database_url", "postgresql+psycopg://zone:sekret@10.0.0.5/zone?sslmode=require"),
    ],
)
def test_an_unprotected_service_is_refused_unless_all_such_are_allowed(option: str, url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options.load(overrides={option: url})
    assert refused.value.field == option
    assert "allow_unverified_services = true" in refused.value.message
    assert "sekret" not in refused.value.message
    assert options.load(overrides={option: url, "allow_unverified_services": True})[option] == url


@pytest.mark.parametrize(
    ("variable", "url", "elsewhere"),
    [
        ("PGHOST=10.0.0.5", "postgresql+psycopg:///zone", True),
        ("PGHOST=/run/postgresql,10.0.0.5", "postgresql+psycopg:///zone", True),
        ("PGHOST=10.0.0.5", "postgresql+psycopg://zone@localhost/zone", False),
        ("PGHOST=10.0.0.5", "postgresql+psycopg:///zone?host=/run/postgresql", False),
        ("PGHOST=/run/postgresql", "postgresql+psycopg:///zone", False),
        ("PGHOSTADDR=10.0.0.5", "postgresql+psycopg://zone@localhost/zone", True),
        ("PGHOSTADDR=10.0.0.5", "postgresql+psycopg://zone@localhost/zone?hostaddr=127.0.0.1", False),
        ("PGSERVICE=elsewhere", "postgresql+psycopg://zone@localhost/zone", True),
        ("PGHOST=10.0.0.5", "sqlite:////srv/zone.sqlite", False),
        ("PGHOST=10.0.0.5", "redis://127.0.0.1:6379", False),
    ],
)
def test_where_libpq_takes_the_server_from_its_environment_names_are_checked_too(
    variable: str, url: str, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    # when
    asked = sa.make_url(with_checked_names(url)).query.get("sslmode")
    is_allowed = is_protected(f"{url}{'&' if '?' in url else '?'}sslmode=disable")
    # then
    assert (asked, is_allowed) == (("verify-full", False) if elsewhere else (None, True))


@pytest.mark.parametrize(
    ("url", "sslmode"),
    [
        (POSTGRESQL, "verify-full"),
        (POSTGRESQL + "?sslrootcert=/etc/ca.pem", "verify-full"),
        (POSTGRESQL + "?sslmode=require", "require"),
        ("postgresql+psycopg://zone@127.0.0.1/zone", None),
        ("postgresql+psycopg:///zone", None),
    ],
)
def test_the_store_asks_a_postgresql_elsewhere_for_its_name(url: str, sslmode: str | None) -> None:
    assert sa.make_url(with_checked_names(url)).query.get("sslmode") == sslmode
    store = Store.open(url)
    assert store.engine.url.query.get("sslmode") == sslmode
    store.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("db", "db"),
        ("sqlite:////srv/zone.sqlite", "sqlite:////srv/zone.sqlite"),
        ("redis://host:6379/?timeout=3", "redis://host:6379/?timeout=3"),
        (POSTGRESQL, "postgresql+psycopg://zone:***@db.example.org/zone"),
        ("amqp://:sekret@host//", "amqp://:***@host//"),
        ("amqp://zone:sek:r@e/t?#@host//", "amqp://zone:***@host//"),
        (
            "pg://zone@host/db?password=sekret&sslmode=disable",
            "pg://zone@host/db?password=***&sslmode=disable",
        ),
        ("redis://host?sentinel=a&sentinel_password=sekret", "redis://host?sentinel=a&sentinel_password=***"),
    ],
)
def test_a_shown_url_has_no_password(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize("password", ["sek@ret", "sek/ret", "sek?ret", "sek#ret"])
def test_a_password_that_could_be_read_as_a_host_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(ConfigError, match="percent-encoded") as refused:
        options.load(overrides={"database_url": f"postgresql+psycopg://zone:{password}@127.0.0.1/zone"})
    assert refused.value.field == "database_url"
    assert "ret" not in refused.value.message.replace("secret", "")


def test_a_value_that_is_no_template_is_shown_without_its_password(tmp_path: Path) -> None:
    # oslo.config replaces $name by another option.
    (tmp_path / "zone.conf").write_text("[DEFAULT]\ndatabase_url = postgresql://zone:sek$ret@host/zone\n")
    with pytest.raises(ConfigError) as refused:
        options.load([str(tmp_path / "zone.conf")])
    assert refused.value.field == "database_url"
    assert "sek" not in refused.value.message


def test_kombu_takes_ssl_parameters_of_a_url_in_the_place_of_ours() -> None:
    # The reason why such a URL counts as unprotected.
    ours = {"cert_reqs": 2, "server_hostname": "10.0.0.6"}
    assert Connection("amqps://10.0.0.6//?ssl_cert_reqs=none", ssl=ours).ssl != ours
