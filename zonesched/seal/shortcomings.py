"""What a zone with this configuration goes without, in plain words."""

from __future__ import annotations

from zonesched.conf import Conf
from zonesched.conf.checks import is_loopback
from zonesched.seal.keyring import Keyring


def shortcomings(conf: Conf) -> list[str]:
    """A line for each thing that the zone will not do or not protect; none for a complete one."""
    lines = []
    keyring = Keyring.from_conf(conf.build_plan_encryption_key)
    if not keyring.can_seal:
        lines.append(
            f"This zone cannot seal ({keyring.refusal}): it boots on its own hosts and refuses select, so it"
            " can be no child. `zonesched key generate` makes a key for build_plan_encryption_key."
        )
    if not conf.secret_encryption_key:
        lines.append(
            "This zone has no secret_encryption_key: it cannot keep credentials of child zones, so none"
            " can be added."
        )
    if conf.auth_strategy == "noauth":
        lines.append("auth_strategy is noauth: everybody who reaches this zone is its admin.")
    if not is_loopback(conf.bind_host):
        lines.append(
            f"This zone serves plain http on {conf.bind_host}: put a proxy with https before it, or passwords"
            " can be read on the way."
        )
    return lines
