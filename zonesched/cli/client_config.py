"""`zonesched client-config`: configuration of OpenStack's own clients."""

from __future__ import annotations

import json
from pathlib import Path

import click

from zonesched.cli.session import Session, pass_session, zone_options

COMPUTE, IMAGE, IDENTITY = "/v2.1", "/image/v2", "/identity/v3"


@click.command("client-config")
@click.option("--cloud", default="zone", show_default=True, help="Name of the cloud, for OS_CLOUD.")
@zone_options
@pass_session
def client_config(session: Session, cloud: str) -> None:
    """Print a clouds.yaml for OpenStack's clients.

    \b
    zonesched client-config > clouds.yaml
    OS_CLOUD=zone openstack server list

    The file has the password: keep it where only you read it.
    """
    who = session.credentials()
    compute = json.dumps(who.url.rstrip("/") + COMPUTE)
    lines = (
        "clouds:",
        f"  {json.dumps(cloud)}:",
        "    auth_type: http_basic",
        "    auth:",
        f"      username: {json.dumps(who.username)}",
        f"      password: {json.dumps(who.password)}",
        f"      endpoint: {compute}",
        f"    compute_endpoint_override: {compute}",
        f"    image_endpoint_override: {json.dumps(who.url.rstrip('/') + IMAGE)}",
        '    image_api_version: "2"',
        f"    identity_endpoint_override: {json.dumps(who.url.rstrip('/') + IDENTITY)}",
        '    identity_api_version: "3"',
        # The clients are started in any folder.
        *([f"    cacert: {json.dumps(str(Path(who.cacert).absolute()))}"] if who.cacert else []),
        # A zone has none of these: commands that need one say so at once. Without a client of volumes, which
        # it has not either, `openstack limits show` would say so too.
        *(f"    has_{service}: false" for service in ("network", "load_balancer", "shared_file_system")),
    )
    click.echo("\n".join(lines))
