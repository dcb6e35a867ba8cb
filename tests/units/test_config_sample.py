"""Configuration: the sample says what the options are, and a wrong file says what is wrong with it."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from zonesched import conf
from zonesched.cli.sample import SAMPLE, sample_text
from zonesched.conf.checks import refused_value
from zonesched.errors import ConfigError

CHECKOUT = Path(__file__).parents[2]
KEY = "ab" * 32


def load(tmp_path: Path, text: str) -> conf.Conf:
    path = tmp_path / "zone.conf"
    path.write_text(f"[DEFAULT]\n{text}\n")
    return conf.load([str(path)])


def values(loaded: conf.Conf) -> dict[str, Any]:
    return {option.name: loaded[option.dest] for option in conf.ALL}


class TestSample:
    def test_it_is_current(self) -> None:
        assert (CHECKOUT / SAMPLE).read_text() == sample_text()

    def test_it_changes_nothing(self) -> None:
        assert values(conf.load([str(CHECKOUT / SAMPLE)])) == values(conf.load())

    def test_every_option_stands_in_it_with_its_default(self, tmp_path: Path) -> None:
        options = re.sub(r"(?m)^#(?=\w+ =)", "", sample_text())
        path = tmp_path / "all.conf"
        path.write_text(options)
        assert options.count(" =") >= len(conf.ALL)
        assert values(conf.load([str(path)])) == values(conf.load())

    def test_every_option_says_what_it_does_and_takes(self) -> None:
        for option in conf.ALL:
            assert re.search(r"\.$", option.help), option.name
        assert sample_text().count("# Accepted: ") == len(conf.ALL)

    def test_no_comment_is_wider_than_a_screen(self) -> None:
        comments = [line for line in sample_text().splitlines() if line.startswith("# ")]
        assert max(map(len, comments)) <= 110


@pytest.mark.parametrize("level", ["root", "region", "leaf"])
def test_each_level_of_the_federation_loads(level: str) -> None:
    loaded = conf.load([str(CHECKOUT / "etc/federation" / f"{level}.conf")])
    assert loaded.zone_name == level
    assert loaded.build_plan_encryption_key == []


def test_the_sample_of_several_machines_loads() -> None:
    loaded = conf.load([str(CHECKOUT / "etc/several-machines/zone.conf")])
    assert loaded.database_url.startswith("postgresql+psycopg://")
    assert loaded.bind_host == "10.0.0.11"


def test_a_later_file_wins(tmp_path: Path) -> None:
    paths = [tmp_path / "a.conf", tmp_path / "b.conf"]
    paths[0].write_text("[DEFAULT]\nzone_name = a\nbind_port = 1\n")
    paths[1].write_text("[DEFAULT]\nzone_name = b\n")
    loaded = conf.load([str(path) for path in paths])
    assert (loaded.zone_name, loaded.bind_port) == ("b", 1)


def test_zones_share_no_configuration() -> None:
    one, other = conf.load((), {"zone_name": "one"}), conf.load()
    assert (one.zone_name, other.zone_name) == ("one", "nova")


def test_the_environment_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_DEFAULT__ZONE_NAME", "elsewhere")
    assert conf.load().zone_name == "nova"


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("api_threads = 0", "api_threads", "'0' is not accepted. Accepted: a whole number from 1 to 512."),
        ("api_threads = many", "api_threads", "Accepted: a whole number from 1 to 512."),
        ("api_threads = 1.5", "api_threads", "Accepted: a whole number from 1 to 512."),
        ("bind_port = 65536", "bind_port", "Accepted: a whole number from 0 to 65535."),
        ("build_plan_ttl = 0.5", "build_plan_ttl", "Accepted: a number from 1.0 to 300.0."),
        ("ram_weight_multiplier = x", "ram_weight_multiplier", "'x' is not accepted. Accepted: a number."),
        ("hold =", "hold", "Option hold: the value is not accepted. Accepted: a number"),
        ("build_plan_blob_size =", "build_plan_blob_size", "Accepted: a whole number from 0 to 65536."),
        ("ram_weight_multiplier = nan", "ram_weight_multiplier", "'nan' is not accepted."),
        ("ram_weight_multiplier = inf", "ram_weight_multiplier", "'inf' is not accepted."),
        ("ram_weight_multiplier = 1_0", "ram_weight_multiplier", "'1_0' is not accepted."),
        ("hold = 6_0", "hold", "'6_0' is not accepted. Accepted: a number from 1.0 to 600.0."),
        ("max_attempts = \u0663", "max_attempts", "is not accepted. Accepted: a whole number from 1"),
        ("bind_port = 8_774", "bind_port", "'8_774' is not accepted."),
        ("metrics_weight_setting = load=1_0", "metrics_weight_setting", "'load=1_0'"),
        ("build_plan_blob_size = 255", "build_plan_blob_size", "Accepted: 0, or a whole number from 256"),
        ("select_timeout = 3601", "select_timeout", "Accepted: a number from 0.1 to 3600.0."),
        ("max_attempts = 0", "max_attempts", "Accepted: a whole number from 1 to 2147483647."),
        ("zone_db_check_interval = 1e10", "zone_db_check_interval", "from 0.1 to 1000000000.0."),
        ("auth_strategy = keystone", "auth_strategy", "Accepted: one of http_basic, noauth."),
        ("allow_admin_api = perhaps", "allow_admin_api", "Accepted: true or false."),
        ("zone_nmae = x", "zone_nmae", "Did you mean zone_name?"),
        ("transport_url = amqp://u:a$b@127.0.0.1/v", "transport_url", "Write $$ for a $ itself."),
        ("quite_another = x", "quite_another", "`zonesched config sample zone` lists them all."),
        ("zone_name =", "zone_name", "'' is not accepted. Accepted: a printable text of 1 to 128 bytes."),
        ("zone_name = a\tb", "zone_name", "'a\\tb' is not accepted."),
        (f"zone_name = {'ä' * 65}", "zone_name", "1 to 128 bytes."),
        ("zone_capabilities = a=b,c", "zone_capabilities", "'c' is not accepted. Accepted: key=value;value"),
        ("zone_capabilities = a=b;", "zone_capabilities", "Accepted: key=value;value"),
        ("zone_capabilities = a=b=c", "zone_capabilities", "'a=b=c' is not accepted."),
        ("zone_capabilities = a;b=c", "zone_capabilities", "'a;b=c' is not accepted."),
        ("zone_capabilities = a=b\tc", "zone_capabilities", "Accepted: key=value;value"),
        (f"zone_capabilities = {'a' * 256}=b", "zone_capabilities", "Accepted: key=value;value"),
        ("child_networks = public,10.0.0.1/8", "child_networks", "'10.0.0.1/8' is not accepted."),
        ("child_networks = everything", "child_networks", "Accepted: public, private, loopback, link-local"),
        ("cors_allowed_origins = *", "cors_allowed_origins", "'*' is not accepted."),
        ("cors_allowed_origins = https://a.example/", "cors_allowed_origins", "no paths and no *"),
        ("cors_allowed_origins = https://A.example", "cors_allowed_origins", "in lower case"),
        ("cors_allowed_origins = null", "cors_allowed_origins", "'null' is not accepted."),
        ("least_cost_functions = noop_cost", "least_cost_functions", "Accepted: name=number"),
        ("least_cost_functions = noop_cost=nan", "least_cost_functions", "Accepted: name=number"),
        ("least_cost_functions = =1", "least_cost_functions", "Accepted: name=number"),
        ("metrics_weight_setting = load=1.0,heat", "metrics_weight_setting", "'heat' is not accepted"),
        ("metrics_weight_setting = load=much", "metrics_weight_setting", "Accepted: name=number"),
        ("hold = 5\nhold_margin = 5", "hold_margin", "Accepted: below hold (5)."),
        ("hold = 20\nmax_hold = 10", "hold", "Accepted: at most max_hold (10)."),
        ("retry_pause = 2\nretry_pause_max = 1", "retry_pause", "Accepted: at most retry_pause_max (1)."),
        ("auth_strategy = noauth\nbind_host = 0.0.0.0", "auth_strategy", "noauth_force = true"),
        ("auth_strategy = noauth\nbind_host = zone.example", "auth_strategy", "noauth_force = true"),
        ("build_plan_encryption_key = xyz", "build_plan_encryption_key", "a key is 64 hex digits"),
        (f"build_plan_encryption_key = {KEY},no", "build_plan_encryption_key", "a key is 64 hex digits"),
        ("secret_encryption_key = xyz", "secret_encryption_key", "a key is 64 hex digits"),
    ],
)
def test_a_wrong_value_names_the_option_and_what_it_takes(
    tmp_path: Path, text: str, field: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"Option {field}")
    assert said in caught.value.message


def test_every_count_fits_into_a_row_and_every_time_can_be_waited_for() -> None:
    bounded: list[Any] = [
        option
        for option in conf.ALL
        if isinstance(option, cfg.IntOpt | cfg.FloatOpt) and not re.search("weight|ratio", option.name)
    ]
    assert len(bounded) > 40
    for option in bounded:
        assert option.type.max is not None, option.name
        assert option.type.max <= min(threading.TIMEOUT_MAX, 2**31 - 1), option.name


@pytest.mark.parametrize(
    "text",
    [
        "auth_strategy = noauth\nbind_host = 127.0.0.2",
        "auth_strategy = noauth\nbind_host = ::1",
        "auth_strategy = noauth\nbind_host = 0.0.0.0\nnoauth_force = true",
        f"build_plan_encryption_key = {KEY},{KEY[::-1]}",
        "build_plan_encryption_key = abcd",
        f"build_plan_encryption_key = {conf.SAMPLE_KEY}",
        "zone_name = Zürich 1",
        "zone_capabilities = continent=europe;asia,tier=1",
        "zone_capabilities = continent = europe; asia, tier=1",
        "child_networks = 10.0.0.0/8,2001:db8::/32,loopback,192.0.2.7",
        "least_cost_functions = my.module.cost=-2.5,noop_cost=1",
    ],
)
def test_what_may_be_set_loads(tmp_path: Path, text: str) -> None:
    load(tmp_path, text)


@pytest.mark.parametrize("secret", ["build_plan_encryption_key", "secret_encryption_key"])
def test_an_error_never_holds_a_key(tmp_path: Path, secret: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        load(tmp_path, f"{secret} = hunter2")
    with pytest.raises(ConfigError) as broken:
        load(tmp_path, f"{secret} hunter2")
    assert "hunter2" not in str(wrong.value) + str(broken.value)
    assert "line 2" in str(broken.value)
    [option] = [option for option in conf.ALL if option.name == secret]
    assert "hunter2" not in str(refused_value(option, "hunter2"))


def test_a_file_that_is_not_there_or_of_another_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf does not exist"):
        conf.load([str(tmp_path / "none.conf")])
    with pytest.raises(ConfigError, match=f"{tmp_path} is no file"):
        conf.load([str(tmp_path)])
    (tmp_path / "z.conf").write_text("[zone]\nname = x\n")
    with pytest.raises(ConfigError, match=r"Section \[zone\] in .*z\.conf"):
        conf.load([str(tmp_path / "z.conf")])
    (tmp_path / "b.conf").write_bytes(b"[DEFAULT]\nzone_name = \xff\n")
    with pytest.raises(ConfigError, match=r"b\.conf is not a text in UTF-8"):
        conf.load([str(tmp_path / "b.conf")])
    (tmp_path / "m.conf").write_text("[DEFAULT]\n", encoding="utf-8-sig")
    with pytest.raises(ConfigError, match=r"m\.conf begins with a byte order mark"):
        conf.load([str(tmp_path / "m.conf")])


@pytest.mark.parametrize(("name", "value"), [("api_threads", 0), ("api_threads", "x"), ("no_such", 1)])
def test_an_override_is_checked_as_a_file_is(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        conf.load((), {name: value})
