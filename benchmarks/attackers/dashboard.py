"""Attacks on the dashboard: by a stranger on its sign-in, and by a member on its pages and forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

from .attack import Attack
from .attacker import Answer, Attacker

PATH = "/dashboard"
SIGNED_IN = 303
REFUSED_SIGN_IN = (0, 400, 401, 403, 404, 413, 429, 503)
TOKEN = re.compile(rb'name="form_token" value="([0-9a-f]+)"')
UNREAD = (0, 403, 404, 429, 503)


def read(attacker: Attacker, path: str, cookie: str = "") -> Answer:
    return attacker.call("GET", path, base=PATH, login="", headers={"Cookie": cookie} if cookie else {})


def send(attacker: Attacker, path: str, form: bytes | Mapping[str, str], **headers: str) -> Answer:
    """Send a form as a browser does."""
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return attacker.call("POST", path, body, base=PATH, login="", headers=sent)


class Visitor:
    """The attacker in a browser, signed in as the hostile member."""

    def __init__(self, attacker: Attacker) -> None:
        self._attacker = attacker
        user, password = attacker.scene.logins["member"]
        self.cookie = send(attacker, "/sign-in", {"user": user, "password": password}).cookie
        found = TOKEN.search(self.read("/boot").body)
        self.token = found[1].decode() if found else ""
        attacker.expect(bool(self.cookie and self.token), "a member cannot sign in")

    def read(self, path: str) -> Answer:
        return read(self._attacker, path, self.cookie)

    def send(self, path: str, form: Mapping[str, str]) -> Answer:
        form = {"form_token": self.token, **form}
        return send(self._attacker, path, form, Cookie=self.cookie)


def guesses(attacker: Attacker) -> None:
    """Sign in with wrong passwords, as one who exists, as many who do not, and as a machine."""
    users = ("person", "hostile", "partner")

    def step(number: int) -> None:
        user = attacker.rng.choice((*users, f"user-{attacker.rng.randrange(10**9)}"))
        answer = send(attacker, "/sign-in", {"user": user, "password": f"{attacker.rng.random()}"})
        attacker.expect(answer.status in REFUSED_SIGN_IN, f"a wrong password is a {answer.status}")
        attacker.pause(0.01)

    attacker.at_once(48, step)


def forms(attacker: Attacker) -> None:
    """Forms that are large, of many fields or none at all, forged sessions and guessed links."""
    made: list[bytes] = [
        b"user=" + b"%41" * 21_000,
        b"&".join(b"f%d=1" % number for number in range(5_000)),
        b"user=a&" * 9_000,
        b"\xff\x00" * 1_000,
        b"link=" + b"0" * 64,
        b"link=" + b"%00" * 64,
        b"user=" + b"a" * 1_000_000,
    ]
    cookies = ["a=b; " * 1_000, "zonesched-00000000=" + "0" * 64, "=;" * 3_000]
    pages = ["/tree", "/hosts", "/users", "/audit", "/servers", "/hosts/heat?class=VCPU", "/news"]

    def step(number: int) -> None:
        answer = send(attacker, "/sign-in", attacker.rng.choice(made))
        attacker.expect(answer.status in REFUSED_SIGN_IN, f"a form that is none is a {answer.status}")
        page = read(attacker, attacker.rng.choice(pages), attacker.rng.choice(cookies))
        attacker.expect(page.status not in range(200, 300), "a page is shown to nobody")

    attacker.at_once(8, step)


def page_storm(attacker: Attacker) -> None:
    """Read the pages that cost most, 32 at a time, with dry runs between them."""
    visitor = Visitor(attacker)
    pages = ["/boots", "/servers", "/servers?limit=1000", "/boot", "/limits", "/flavors", "/news", "/news"]
    dry_run = {"do": "dry_run", "name": "x", "flavor": "small", "num_instances": "1000"}

    def step(number: int) -> None:
        if number % 8 == 0:
            visitor.send("/boot", dry_run)
        else:
            visitor.read(attacker.rng.choice(pages))

    attacker.at_once(32, step)


def others_pages(attacker: Attacker) -> None:
    """Read pages of admins and of other projects, and send forms for what is theirs."""
    visitor = Visitor(attacker)
    others = attacker.scene.others
    closed = ["/tree", "/hosts", "/aggregates", "/users", "/audit", "/hosts/layout", "/hosts/heat?class=VCPU"]
    closed += [f"/servers/{others['server']}", f"/boots/{others['reservation']}"]
    acts = [
        ("/users", {"do": "add", "name": "mine", "role": "admin"}),
        ("/users", {"do": "new_secret", "name": "victim"}),
        ("/flavors", {"do": "add", "name": "mine"}),
        (f"/servers/{others['server']}", {"do": "delete"}),
        (f"/servers/{others['server']}", {"do": "os-stop"}),
        (f"/boots/{others['reservation']}", {"do": "cancel"}),
    ]

    def step(number: int) -> None:
        page = attacker.rng.choice(closed)
        answer = visitor.read(page)
        attacker.expect(answer.status in UNREAD, f"{page.split('/')[1]} is a {answer.status} to a member")
        path, form = attacker.rng.choice(acts)
        answer = visitor.send(path, form)
        attacker.expect(
            answer.status not in range(200, 400), f"{form['do']} of another's is a {answer.status}"
        )
        forged = send(attacker, "/boot", {"do": "boot", "form_token": "0" * 64}, Cookie=visitor.cookie)
        attacker.expect(forged.status in (*UNREAD, 400), f"a forged form is a {forged.status}")

    attacker.at_once(8, step)


def sessions(attacker: Attacker) -> None:
    """Sign in and out without end."""
    user, password = attacker.scene.logins["member"]

    def step(number: int) -> None:
        made = send(attacker, "/sign-in", {"user": user, "password": password})
        if number % 2 and made.status == SIGNED_IN:
            read(attacker, "/boots", made.cookie)

    attacker.at_once(8, step)


ATTACKS = (
    Attack("stranger-sign-ins", "guesses passwords at the dashboard, 48 at a time", guesses),
    Attack("stranger-forms", "sends forms and cookies that are none to the dashboard", forms),
    Attack("member-page-storm", "reads pages of the dashboard, 32 at a time", page_storm),
    Attack("member-others-pages", "reads others' pages and sends forms for what is theirs", others_pages),
    Attack("member-sessions", "signs in to the dashboard without end", sessions),
)
