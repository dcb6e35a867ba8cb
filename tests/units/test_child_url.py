"""A registered URL is a request on someone's word: it goes where the configuration allows, or nowhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clock import FakeClock
from zonesched.errors import ChildUnreachable, ConfigError
from zonesched.zones.address import AddressGuard, AddressRefused, parse_api_url
from zonesched.zones.call import Call
from zonesched.zones.connections import CheckedAdapter, TlsFiles
from zonesched.zones.networks import METADATA, Networks
from zonesched.zones.resolver import Resolver, SystemResolver
from zonesched.zones.transport import HttpTransport

NAMES = {
    "zone.example.org": ["93.184.216.34"],
    "inside.example.org": ["10.1.2.3", "fd12::3"],
    "localhost": ["127.0.0.1", "::1"],
    "half.example.org": ["93.184.216.34", "127.0.0.1"],
    "mapped.example.org": ["::ffff:127.0.0.1"],
    "nat64.example.org": ["64:ff9b::7f00:1"],
    "dns64.example.org": ["64:ff9b::5db8:d822"],
    "link.example.org": ["fe80::1%eth0"],
    "metadata.example.org": ["169.254.169.254"],
    "nothing.example.org": [],
    "garbage.example.org": ["not an address"],
}

DEFAULT_WORDS = ("public", "private")

REFUSED_SPELLINGS = [
    # No URL of ours
    "",
    "zone.example.org",
    "//zone.example.org/",
    "file:///etc/passwd",
    "ftp://zone.example.org/",
    "gopher://zone.example.org:70/_GET",
    "unix:///run/zone.sock",
    "javascript:alert(1)",
    "https:/zone.example.org",
    "https:zone.example.org",
    "https:///zone.example.org",
    "https://",
    "https://:8774",
    "https+unix://zone.example.org",
    " https://zone.example.org",
    "https://zone.example.org\n",
    "ht\ttps://zone.example.org",
    "https://zone.example.org/\r\nHost: other",
    "https://zone.example.org/a b",
    "https://zone.example.org\\@127.0.0.1/",
    "https:\\\\zone.example.org",
    "https://" + "a" * 64 + ".example.org",
    "https://" + "a." * 130 + "example.org",
    # Credentials, queries, fragments, paths
    "https://user@zone.example.org/",
    "https://user:secret@zone.example.org/",
    "https://@zone.example.org/",
    "https://zone.example.org@127.0.0.1/",
    "https://zone.example.org/#top",
    "https://zone.example.org#@127.0.0.1",
    "https://zone.example.org/v2.1/../admin",
    "https://zone.example.org/./v2.1",
    "https://zone.example.org//v2.1",
    "https://zone.example.org/%2e%2e/",
    "https://zone.example.org/v2.1;x=1",
    # Ports
    "https://zone.example.org:/",
    "https://zone.example.org:0/",
    "https://zone.example.org:65536/",
    "https://zone.example.org:99999999/",
    "https://zone.example.org:-1/",
    "https://zone.example.org:080/",
    "https://zone.example.org:80x/",
    "https://zone.example.org:443:443/",
    # Hosts that no two readers agree on
    "https://zone.example.org./",
    "https://.zone.example.org/",
    "https://zone..example.org/",
    "https://-zone.example.org/",
    "https://zone-.example.org/",
    "https://zone_1.example.org/",
    "https://zone%2eexample.org/",
    "https://%7a%6f%6e%65.example.org/",
    "https://zone。example.org/",
    "https://z\N{CYRILLIC SMALL LETTER O}ne.example.org/",
    "https://127。0。0。1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://\u0661\u0662\u0667.\u0660.\u0660.\u0661/",
    "https://\uff11\uff12\uff17.0.0.1/",
    # IPv4 in other clothes
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0X7F.0.0.1/",
    "https://0x7f.1/",
    "https://017700000001/",
    "https://0177.0.0.1/",
    "https://127.0.0.01/",
    "https://127.1/",
    "https://127.0.1/",
    "https://10.1/",
    "https://0/",
    "https://127.0.0.1./",
    "https://93.184.216.34./",
    "https://256.1.1.1/",
    "https://1.2.3.4.5/",
    "https://1.2.3.0x4/",
    "https://93.184.216.34%00/",
    # IPv6 in other clothes
    "https://::1/",
    "https://[::1/",
    "https://::1]/",
    "https://[]/",
    "https://[:::1]/",
    "https://[1::2::3]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[::1%lo]/",
    "https://[v1.x]/",
    "https://[2001:470:0:1::1]x/",
    "https://[127.0.0.1]/",
    "https://[zone.example.org]/",
]

REFUSED_PLACES = [
    "https://127.0.0.1/",
    "https://127.255.255.254/",
    "https://[::1]/",
    "https://0.0.0.0/",
    "https://0.1.2.3/",
    "https://[::]/",
    "https://169.254.1.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://169.254.170.2/",
    "https://100.100.100.200/",
    "https://168.63.129.16/",
    "https://[fd00:ec2::254]/",
    "https://[fe80::1]/",
    "https://[fec0::1]/",
    "https://100.64.0.1/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://192.88.99.1/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://[ff02::1]/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[2001:20::1]/",
    "https://[100::1]/",
    "https://[4000::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[0:0:0:0:0:ffff:169.254.169.254]/",
    "https://[::127.0.0.1]/",
    "https://[::7f00:1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::127.0.0.1]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:7f00:1::]/",
    "https://[2001:0:5db8:d822:0:0:80ff:fffe]/",
    "https://[2001:470::5efe:127.0.0.1]/",
    "https://[2001:470::200:5efe:169.254.169.254]/",
    "https://[fd00::5efe:127.0.0.1]/",
    "https://localhost/",
    "https://LOCALHOST:8774/v2.1",
    "https://half.example.org/",
    "https://mapped.example.org/",
    "https://nat64.example.org/",
    "https://link.example.org/",
    "https://metadata.example.org/",
    "https://nothing.example.org/",
    "https://garbage.example.org/",
    "https://unknown.example.org/",
    "http://zone.example.org/",
    "http://10.0.0.1/",
    "http://inside.example.org/",
]

TAKEN = {
    "https://zone.example.org": "https://zone.example.org",
    "https://zone.example.org/": "https://zone.example.org",
    "HTTPS://Zone.Example.ORG:443/v2.1/": "https://zone.example.org/v2.1",
    "https://zone.example.org:8774/v2.1": "https://zone.example.org:8774/v2.1",
    "https://inside.example.org/a/b-c_d~e": "https://inside.example.org/a/b-c_d~e",
    "https://93.184.216.34:1/": "https://93.184.216.34:1",
    "https://10.255.0.1": "https://10.255.0.1",
    "https://172.31.0.1": "https://172.31.0.1",
    "https://192.168.0.1": "https://192.168.0.1",
    "https://[2001:470:0:1:0:0:0:1]:8774/v2.1": "https://[2001:470:0:1::1]:8774/v2.1",
    "https://[FD12:0::1]": "https://[fd12::1]",
    "https://[::ffff:10.0.0.1]": "https://10.0.0.1",
    "https://[64:ff9b::93.184.216.34]": "https://[64:ff9b::5db8:d822]",
    "https://dns64.example.org": "https://dns64.example.org",
    "https://xn--zne-0na.example.org": "https://xn--zne-0na.example.org",
}
NAMES["xn--zne-0na.example.org"] = ["93.184.216.34"]


def look_up(name: str, timeout_s: float) -> Sequence[str]:
    if name not in NAMES:
        raise OSError("no such name")
    return NAMES[name]


def look_up_anything(name: str, timeout_s: float) -> Sequence[str]:
    return ["93.184.216.34"]


def a_guard(*words: str, allow_plain_http: bool = False) -> AddressGuard:
    return AddressGuard(Networks.from_words(words or DEFAULT_WORDS), allow_plain_http=allow_plain_http)


def a_transport(guard: AddressGuard | None = None, resolver: Resolver = look_up) -> HttpTransport:
    clock, guard = FakeClock(), guard or a_guard()
    return HttpTransport(CheckedAdapter(guard, resolver, clock, tls=TlsFiles()), clock, guard, resolver)


def check(url: str, guard: AddressGuard | None = None) -> str:
    return a_transport(guard).check_url(url, timeout_s=1.0)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Address that the adapter would have connected to; nothing leaves this process."""
    made: list[Sequence[str]] = []

    def record(addresses: Sequence[str], port: int, deadline: object) -> None:
        made.append(addresses)
        raise ConnectionRefusedError

    monkeypatch.setattr("zonesched.zones.connections.connect", record)
    return made


@pytest.mark.parametrize(
    ("url", "resolver"),
    [(url, look_up_anything) for url in REFUSED_SPELLINGS] + [(url, look_up) for url in REFUSED_PLACES],
)
def test_a_url_that_may_not_be_is_refused_and_never_connected_to(
    url: str, resolver: Resolver, connections: list[Sequence[str]]
) -> None:
    transport = a_transport(resolver=resolver)

    with pytest.raises(AddressRefused):
        transport.check_url(url, timeout_s=1.0)
    with pytest.raises(ChildUnreachable):
        transport.send(Call("GET", url, {}), timeout_s=1.0, max_bytes=1000)

    assert connections == []


@pytest.mark.parametrize("url", ["https://zone.example.org/?a=1", "https://zone.example.org/" + "a" * 1024])
def test_a_registered_url_is_short_and_without_a_query(url: str) -> None:
    with pytest.raises(AddressRefused):
        check(url)


def test_the_list_of_refused_urls_is_long_enough() -> None:
    assert len(set(REFUSED_SPELLINGS + REFUSED_PLACES)) >= 140


@pytest.mark.parametrize(("url", "stored"), TAKEN.items())
def test_a_url_that_may_be_is_taken_in_its_one_spelling(url: str, stored: str) -> None:
    assert check(url) == stored
    assert check(stored) == stored


@pytest.mark.parametrize(
    ("words", "url"),
    [
        (["loopback"], "http://127.0.0.1:7001"),
        (["loopback"], "http://localhost:7001"),
        (["loopback"], "https://[::1]:7001"),
        (["Loopback "], "https://127.9.9.9"),
        (["link-local"], "https://169.254.1.1"),
        (["link-local"], "https://[fe80::1]"),
        (["169.254.169.254/32"], "https://169.254.169.254"),
        (["fd00:ec2::/64"], "https://[fd00:ec2::254]"),
        (["100.64.0.0/10"], "https://100.64.0.1"),
        (["10.1.0.0/16", "fd12::/16"], "https://inside.example.org"),
        (["127.0.0.0/8"], "https://[::ffff:127.0.0.1]"),
        (["2002::/16", "public"], "https://[2002:5db8:d822::1]"),
    ],
)
def test_a_kind_or_network_that_is_listed_admits_what_is_in_it(words: list[str], url: str) -> None:
    assert check(url, a_guard(*words))


@pytest.mark.parametrize(
    ("words", "url"),
    [
        (["public"], "https://10.0.0.1"),
        (["private"], "https://93.184.216.34"),
        (["link-local"], "https://169.254.169.254"),
        (["private"], "https://[fd00:ec2::254]"),
        (["10.1.0.0/16"], "https://10.2.0.1"),
        (["10.1.0.0/16"], "https://inside.example.org"),
        (["2002::/16"], "https://[2002:7f00:1::1]"),
        (["::/0"], "https://[::ffff:127.0.0.1]"),
        (["2001::/32", "public"], "https://[2001:0:5db8:d822:0:0:80ff:fffe]"),
        (["::/96"], "https://[::127.0.0.1]"),
        (["link-local"], "https://link.example.org"),
        (["public", "private", "loopback", "link-local"], "https://224.0.0.1"),
        (["public", "private", "loopback", "link-local"], "https://0.0.0.0"),
    ],
)
def test_what_is_in_no_listed_kind_or_network_is_refused(words: list[str], url: str) -> None:
    with pytest.raises(AddressRefused):
        check(url, a_guard(*words))


def test_plain_http_beyond_loopback_has_to_be_allowed() -> None:
    guard = a_guard(*DEFAULT_WORDS, "loopback", allow_plain_http=True)

    assert check("http://10.0.0.1:8774", guard) == "http://10.0.0.1:8774"
    with pytest.raises(AddressRefused, match="allow_plain_http"):
        check("http://10.0.0.1:8774", a_guard(*DEFAULT_WORDS, "loopback"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://user:secret@zone.example.org/", "carries credentials"),
        ("https://zone.example.org/#top", "a query or a fragment"),
        ("ftp://zone.example.org/", "neither https nor http"),
        ("https://zone.example.org:65536/", "port is above 65535"),
        ("https://0x7f.1/", "four plain decimal numbers"),
        ("https://zone.example.org./", "letters, digits, hyphens and inner dots"),
        ("https://unknown.example.org/", "cannot be resolved"),
        ("https://nothing.example.org/", "has no address"),
        ("not a url", "not of the form https://host:port/path"),
    ],
)
def test_each_refusal_has_its_reason(url: str, why: str) -> None:
    with pytest.raises(AddressRefused, match=why) as refused:
        check(url)

    assert "secret" not in str(refused.value)


def test_a_refusal_says_what_is_wrong_but_not_what_was_found() -> None:
    with pytest.raises(AddressRefused) as refused:
        check("https://half.example.org/")

    assert str(refused.value) == "its host is in a network where no child may be (option child_networks)"


def test_a_name_that_resolves_to_something_else_later_is_not_followed(
    connections: list[Sequence[str]],
) -> None:
    answers = iter([["93.184.216.34"], ["93.184.216.34"], ["127.0.0.1"]])
    transport = a_transport(resolver=lambda name, timeout_s: next(answers))
    url = transport.check_url("https://zone.example.org", timeout_s=1.0)

    for _ in range(2):
        with pytest.raises(ChildUnreachable):
            transport.send(Call("GET", url + "/zones/info", {}), timeout_s=1.0, max_bytes=1000)

    assert connections == [["93.184.216.34"]]


@given(st.integers(0, 2**32 - 1))
def test_ipv4_inside_ipv6_never_gets_further_than_the_ipv4_address(number: int) -> None:
    inner = IPv4Address(number)
    guard = a_guard("public", "private")
    endpoint = parse_api_url("https://zone.example.org").endpoint

    def admitted(text: str) -> bool:
        try:
            return bool(guard.admit(endpoint, [text]))
        except AddressRefused:
            return False

    bare = admitted(str(inner))
    high = number << 80
    for outer in (
        IPv6Address((0xFFFF << 32) | number),
        IPv6Address(number),
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0x2002 << 112) | high),
        IPv6Address((0x20010470 << 96) | (0x5EFE << 32) | number),
        IPv6Address((0x20010000 << 96) | (number << 64)),
    ):
        assert bare or not admitted(str(outer))


@given(st.text(max_size=60) | st.from_regex(r"https?://[0-9a-fA-Fx.:\[\]%@/?#-]{0,40}", fullmatch=True))
def test_any_text_is_either_refused_or_has_one_spelling(text: str) -> None:
    try:
        url = parse_api_url(text)
    except AddressRefused:
        return

    assert parse_api_url(url.text) == url


@given(st.ip_addresses())
def test_a_literal_address_is_the_one_that_is_connected_to(address: IPv4Address | IPv6Address) -> None:
    host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    guard = a_guard("public", "private", "loopback", "link-local", "0.0.0.0/0", "::/0")

    (chosen,) = guard.admit(parse_api_url(f"https://{host}").endpoint, ["203.0.113.1"])

    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    assert ip_address(chosen) == (mapped or address)


@pytest.mark.parametrize("address", sorted(METADATA, key=str))
def test_no_kind_admits_where_clouds_hand_out_credentials(address: IPv4Address | IPv6Address) -> None:
    assert not Networks.from_words(["public", "private", "loopback", "link-local"]).admit(address)


@pytest.mark.parametrize("word", ["10.0.0.1/8", "everything", "10.0.0.0/33", ""])
def test_a_wrong_word_in_the_configuration_names_the_option(word: str) -> None:
    with pytest.raises(ConfigError, match="child_networks") as refused:
        Networks.from_words(["private", word])

    assert refused.value.field == "child_networks"


def test_the_system_knows_localhost() -> None:
    found = SystemResolver()("localhost", 5.0)

    assert set(found) <= {"127.0.0.1", "::1"} and found


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long"), ValueError()]
)
def test_a_look_up_that_fails_leaves_nothing_behind(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([error, [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]])

    def look_up_once(*args: object, **kwargs: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("socket.getaddrinfo", look_up_once)
    resolver = SystemResolver()

    with pytest.raises(OSError):
        resolver("zone.example.org", 5.0)
    assert resolver("zone.example.org", 5.0) == ["93.184.216.34"]


def test_a_look_up_that_hangs_takes_one_thread_and_no_more_time_than_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, started = threading.Event(), []

    def hang(*args: object, **kwargs: object) -> list[object]:
        started.append(args)
        over.wait(10)
        return []

    monkeypatch.setattr("socket.getaddrinfo", hang)
    resolver = SystemResolver()

    for _ in range(5):
        with pytest.raises(TimeoutError):
            resolver("hanging.example.org", 0.01)
    over.set()

    assert len(started) == 1
