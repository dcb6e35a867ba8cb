"""Options of TLS: what a zone presents to callers, and to its children."""

from __future__ import annotations

from oslo_config import cfg

TLS = [
    cfg.StrOpt(
        "tls_certificate_file",
        default="",
        help="PEM file of the zone's certificate and those that sign it; with it the zone serves https.",
    ),
    cfg.StrOpt(
        "tls_key_file",
        default="",
        help="PEM file of the certificate's key, without a passphrase; by default tls_certificate_file.",
    ),
    cfg.StrOpt(
        "tls_client_ca_file",
        default="",
        help="PEM file of CA certificates that sign certificates of parents. With it a parent needs such a"
        " certificate beside its secret; other callers need none.",
    ),
    cfg.StrOpt(
        "child_certificate_file",
        default="",
        help="PEM file of the certificate that this zone shows to its children.",
    ),
    cfg.StrOpt(
        "child_key_file",
        default="",
        help="PEM file of that certificate's key; by default child_certificate_file.",
    ),
]
