"""`zonesched federation`: make a tree of zones from a file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from zonesched.cli.federation_file import WantedUser, WantedZone, read_tree
from zonesched.cli.federation_plan import (
    PARENT,
    AddChild,
    ChangeChild,
    CreateFlavor,
    CreateParent,
    CreateUser,
    Present,
    RenewSecret,
    RenewUser,
    Step,
    plan,
)
from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import Params, all_pages, part_of_path
from zonesched.cli.output import print_json
from zonesched.cli.sample_files import save_samples
from zonesched.cli.session import (
    FILE,
    Session,
    federation_options,
    offline_options,
    pass_session,
    read_secret,
)
from zonesched.compute.connection import ZoneConnection, ZoneRefused, ZoneUnavailable
from zonesched.compute.credentials import (
    are_begun,
    begin_credentials,
    give_up_credentials,
    write_credentials,
)
from zonesched.errors import ConfigError


@click.group(cls=CommandGroup)
def federation() -> None:
    """Make a tree of zones from a file."""


FILES = {
    "root": "root.conf",
    "region": "region.conf",
    "leaf": "leaf.conf",
    "tree": "tree.toml",
    "inventory": "hosts.csv",
}
"""Samples that make up a tree of three zones on one machine, and their files."""

NEXT = (
    *(f"zonesched-zone --config-file {zone}.conf > {zone}.log 2>&1 &" for zone in ("root", "region", "leaf")),
    "zonesched federation apply tree.toml",
    "zonesched-compute --credentials agent.credentials --inventory hosts.csv > agent.log 2>&1 &",
    "zonesched --credentials root-state/admin.credentials zone info",
)


@federation.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@offline_options
@pass_session
def init(session: Session, folder: Path) -> None:
    """Write the files of a tree of three zones on this machine into FOLDER, by default the working folder.

    These are configurations with new keys, the tree for `federation apply`, and an inventory of fake hosts.
    Files that exist are kept, and nothing is written then. The next commands are printed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: the folder cannot be made: {error.strerror}.") from None
    save_samples({name: folder / file for name, file in FILES.items()})
    steps = NEXT if folder == Path() else (f"cd {shlex.quote(str(folder))}", *NEXT)
    if session.as_json:
        print_json({"files": [str(folder / file) for file in FILES.values()], "next": list(steps)})
        return
    click.echo(f"made {', '.join(FILES.values())}; next:")
    for step in steps:
        click.echo(f"  {step}")


@federation.command()
@click.argument("file", type=FILE)
@click.option("--dry-run", is_flag=True, help="Show the changes, and make none.")
@federation_options
@pass_session
def apply(session: Session, file: Path, dry_run: bool) -> None:
    """Make the users, flavors, secrets and child zones of FILE (TOML), the leaves first.

    Every zone is read before anything is changed. A tree that matches the file is not changed, so the
    command can be repeated, also after it stopped half-way. Users, flavors and children that are not in
    the file stay.
    """
    zones = [_trusting(zone, session.cacert) for zone in read_tree(file)]
    tree = _Tree(session, {zone.name: zone for zone in zones})
    steps = plan(zones, {zone.name: tree.present(zone.name) for zone in zones})
    if session.as_json:
        print_json({"dry_run": dry_run, "steps": list(map(str, steps))})
    for step in steps:
        if not session.as_json:
            click.echo(f"would {step}" if dry_run else str(step))
        if not dry_run:
            tree.carry_out(step)
    if not session.as_json:
        click.echo(_summary(len(steps), len(zones), dry_run))


def _trusting(zone: WantedZone, cacert: str) -> WantedZone:
    """Return the zone with a file of CA certificates, unless its credentials name their own."""
    return replace(zone, admin=replace(zone.admin, cacert=zone.admin.cacert or cacert))


def _summary(steps: int, zones: int, dry_run: bool) -> str:
    if not steps:
        return f"{zones} zones are as the file says"
    counted = f"{steps} step{'s' if steps != 1 else ''}"
    return f"{counted} to do" if dry_run else f"{counted} done"


@dataclass
class _Tree:
    """Zones of the file, each called as its admin; keeps the secrets between two steps."""

    session: Session
    zones: Mapping[str, WantedZone]
    connections: dict[str, ZoneConnection] = field(default_factory=dict)
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)

    def present(self, zone: str) -> Present:
        """Read the present users, children and flavors of a zone."""
        users = self._call(zone, "GET", "/users")["users"]
        children = self._call(zone, "GET", "/zones/detail")["zones"]
        flavors = all_pages(partial(self._flavors, zone), "flavors")["flavors"]
        wanted = self.zones[zone].users
        unsaved = frozenset(user.name for user in wanted if user.save is not None and are_begun(user.save))
        by_name = [{row["name"]: row for row in rows} for rows in (users, children, flavors)]
        return Present(by_name[0], by_name[1], by_name[2], unsaved)

    def _flavors(self, zone: str, page: Params) -> Any:
        return self._call(zone, "GET", "/flavors/detail?is_public=none", params=page)

    def carry_out(self, step: Step) -> None:
        """Take one step of the plan."""
        form: dict[str, Any]
        match step:
            case CreateUser(zone, user):
                form = {"name": user.name, "role": user.role, "project_id": user.project_id}
                self._make_known(zone, user, "POST", "/users", form)
            case RenewUser(zone, user):
                form = {} if user.password_file is not None else {"new_secret": True}
                self._make_known(zone, user, "PUT", f"/users/{part_of_path('users', user.name)}", form)
            case CreateFlavor(zone, flavor):
                self._call(zone, "POST", "/flavors", {"flavor": asdict(flavor)})
            case CreateParent(zone, name):
                made = self._call(zone, "POST", "/users", {"user": {"name": name, "role": PARENT}})
                self.secrets[zone, name] = made["user"]["secret"]
            case RenewSecret(zone, name):
                made = self._call(zone, "PUT", f"/users/{name}", {"user": {"new_secret": True}})
                self.secrets[zone, name] = made["user"]["secret"]
            case AddChild(zone, child, username):
                form = {
                    "name": child.name,
                    "api_url": child.api_url,
                    "weight_offset": child.weight_offset,
                    "weight_scale": child.weight_scale,
                    **self._credentials(child.name, username),
                }
                self._call(zone, "POST", "/zones", {"zone": form})
            case ChangeChild(zone, id, child, username, with_credentials, changes):
                credentials = self._credentials(child.name, username) if with_credentials else {}
                self._call(zone, "PUT", f"/zones/{id}", {"zone": {**changes, **credentials}})

    def _make_known(
        self, zone: str, user: WantedUser, method: str, path: str, form: Mapping[str, Any]
    ) -> None:
        """Make a call that gives a user its password or a secret, and save that where the file says so."""
        given = {} if user.password_file is None else {"password": read_secret(user.password_file)}
        if user.save is None:
            self._call(zone, method, path, {"user": {**form, **given}})
            return
        user.save.parent.mkdir(parents=True, exist_ok=True)
        begin_credentials(user.save)
        try:
            made = self._call(zone, method, path, {"user": {**form, **given}})["user"]
        except ZoneRefused:
            give_up_credentials(user.save)
            raise
        proof = made.get("secret", given.get("password", ""))
        admin = self.zones[zone].admin
        write_credentials(user.save, replace(admin, username=user.name, password=proof))

    def _credentials(self, zone: str, username: str) -> dict[str, str]:
        return {"username": username, "password": self.secrets[zone, username]}

    def _call(
        self,
        zone: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Params | None = None,
    ) -> Any:
        """Call a zone. Raises ZoneCallError whose message begins with the zone's name."""
        if zone not in self.connections:
            self.connections[zone] = self.session.connection_to(self.zones[zone].admin)
        try:
            return self.connections[zone].call(method, path, body, params)
        except ZoneRefused as error:
            raise ZoneRefused(error.status, error.code, f"{zone}: {error.message}", error.field) from None
        except ZoneUnavailable as error:
            raise ZoneUnavailable(f"{zone}: {error}") from None
