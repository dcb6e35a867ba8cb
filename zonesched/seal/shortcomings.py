"""Warnings at start: what a zone with this configuration lacks or leaves unprotected."""

from __future__ import annotations

from zonesched.conf import Conf
from zonesched.remote_services import ALLOW, PROTECTION, is_loopback, unprotected
from zonesched.seal.keyring import Keyring


def shortcomings(conf: Conf) -> list[str]:
    """Return a warning for each function or protection that the configuration lacks."""
    lines = []
    keyring = Keyring.from_conf(conf.build_plan_encryption_key)
    if not keyring.can_seal:
        lines.append(
            f"This zone cannot seal ({keyring.refusal}): it boots on its local hosts and refuses select, so"
            " it cannot be a child zone. `zonesched key generate` makes a key for build_plan_encryption_key."
        )
    if not conf.secret_encryption_key:
        lines.append(
            "This zone has no secret_encryption_key: it cannot keep credentials of child zones, so none"
            " can be added."
        )
    if conf.auth_strategy == "noauth":
        lines.append("auth_strategy is noauth: every caller is trusted as its admin.")
    if not is_loopback(conf.bind_host) and not conf.tls_certificate_file:
        lines.append(
            f"This zone serves plain http on {conf.bind_host}: set tls_certificate_file, or put a proxy with"
            " https in front of it, or passwords can be read on the network."
        )
    return lines + [
        f"{ALLOW} is set, and {option} is not protected by TLS that checks the server's name: passwords and"
        f" data can be read and changed on the way. To protect it, use {PROTECTION[option]}."
        for option in unprotected(conf)
    ]
