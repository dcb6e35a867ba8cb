"""Options of a zone as such: where it is, its API, sealing, selecting, its children and boots."""

from __future__ import annotations

from oslo_config import cfg

DEFAULT_PORT = 8790
"""A port that no service of OpenStack listens on: a zone and a Nova fit on one machine."""

ZONE = [
    cfg.StrOpt("zone_name", default="nova", help="Name of this zone. Two zones may bear the same one."),
    cfg.ListOpt(
        "zone_capabilities",
        default=[],
        help="What this zone as a whole offers, as key=value;value. A flavor asks with zone:key=value.",
    ),
    cfg.StrOpt("state_path", default="zone-state", help="Folder of what this zone keeps on disk."),
    cfg.StrOpt(
        "database_url",
        default="sqlite:///$state_path/zone.sqlite",
        help="Where the zone's rows are (SQLAlchemy URL).",
    ),
]

API = [
    cfg.StrOpt("bind_host", default="127.0.0.1", help="Address to listen on."),
    cfg.PortOpt("bind_port", default=DEFAULT_PORT, help="Port to listen on."),
    cfg.IntOpt("api_threads", default=32, min=1, max=512, help="Requests served at the same time."),
    cfg.StrOpt(
        "auth_strategy",
        default="http_basic",
        choices=["http_basic", "noauth"],
        help="http_basic: users of this zone's own database. noauth: all may do everything; loopback only.",
    ),
    cfg.BoolOpt("noauth_force", default=False, help="Allow noauth on an address that is not loopback."),
    cfg.BoolOpt("allow_admin_api", default=True, help="False: every call under /zones answers 403."),
    cfg.BoolOpt(
        "enable_zone_routing",
        default=True,
        help="Pass calls for one instance on to the child zone that has it.",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=16 * 2**20,
        min=1024,
        help="Largest request body that is read; above it, 413.",
    ),
    cfg.IntOpt(
        "max_instances_per_request",
        default=10_000,
        min=1,
        max=100_000,
        help="Largest num_instances of a boot.",
    ),
    cfg.StrOpt(
        "log_format",
        default="text",
        choices=["text", "json"],
        help="Log lines as key=value (text) or as JSON objects.",
    ),
    cfg.IntOpt("max_server_groups", default=1000, min=1, help="Most server groups of one project."),
]

SEAL = [
    cfg.ListOpt(
        "build_plan_encryption_key",
        default=[],
        secret=True,
        help="Keys of sealed entries, 64 hex digits each; the first seals, all open. `zonesched key generate`"
        " makes one. Without one the zone boots its own hosts and refuses select.",
    ),
    cfg.IntOpt(
        "build_plan_blob_size",
        default=0,
        min=0,
        max=65_536,
        help="Bytes of every sealed entry. 0: 256 without children, else the largest child's + 128, rounded"
        " up to 256, at most 8192.",
    ),
    cfg.FloatOpt(
        "build_plan_ttl", default=60.0, min=1.0, max=300.0, help="Seconds until a sealed entry expires."
    ),
    cfg.StrOpt(
        "secret_encryption_key",
        default="",
        secret=True,
        help="Key of the children's credentials at rest, 64 hex digits. Needed by a zone with children.",
    ),
]

SELECT = [
    cfg.FloatOpt(
        "select_timeout",
        default=10.0,
        min=0.1,
        max=3600.0,
        help="Time budget in seconds of a select made here.",
    ),
    cfg.FloatOpt(
        "max_time_budget",
        default=60.0,
        min=1.0,
        max=3600.0,
        help="Longest time in seconds that this zone works on a parent's select or build.",
    ),
    cfg.FloatOpt(
        "select_reserve",
        default=0.25,
        min=0.0,
        help="Seconds of a select's budget that this zone keeps for itself (at most a fifth of what came);"
        " children get the rest.",
    ),
    cfg.IntOpt(
        "max_entries_per_select",
        default=10_000,
        min=1,
        help="Maximum number of entries in the answer to a parent's select.",
    ),
    cfg.IntOpt(
        "select_alternates", default=3, min=0, max=1000, help="Alternates asked for with each select."
    ),
    cfg.StrOpt(
        "explain_to_parent",
        default="reasons",
        choices=["none", "reasons", "counts"],
        help="How much a parent sees of the reasons why hosts were refused.",
    ),
]

CHILDREN = [
    cfg.FloatOpt(
        "zone_db_check_interval", default=10.0, min=0.1, help="Seconds between two polls of the child zones."
    ),
    cfg.IntOpt(
        "zone_failures_to_offline", default=3, min=1, help="Failed polls in a row until a child is inactive."
    ),
    cfg.FloatOpt(
        "zone_poll_timeout", default=5.0, min=0.1, help="Seconds that one poll of a child may take."
    ),
    cfg.ListOpt(
        "child_networks",
        default=["public", "private"],
        help="Where children may be: public, private, loopback, link-local, or networks such as 10.1.0.0/16.",
    ),
    cfg.BoolOpt("allow_plain_http", default=False, help="Allow http:// children that are not on loopback."),
    cfg.StrOpt("child_ca_file", default="", help="CA certificates that children's https is checked with."),
    cfg.IntOpt(
        "child_answer_bytes", default=64 * 2**20, min=1024, help="Largest answer of a child that is read."
    ),
]

BOOT = [
    cfg.IntOpt("boot_workers", default=4, min=1, max=64, help="Reservations worked on at the same time."),
    cfg.FloatOpt("boot_lease", default=60.0, min=1.0, help="Seconds until another worker takes over a boot."),
    cfg.FloatOpt(
        "boot_poll_interval", default=2.0, min=0.05, help="Seconds between two polls for boots to continue."
    ),
    cfg.FloatOpt(
        "build_timeout",
        default=30.0,
        min=0.1,
        max=3600.0,
        help="Seconds that one call of a boot to a child may take.",
    ),
    cfg.FloatOpt(
        "hold", default=30.0, min=1.0, max=600.0, help="Seconds that a claim is held without a confirm."
    ),
    cfg.FloatOpt(
        "hold_margin", default=5.0, min=0.0, help="Seconds a hold must have left when confirm goes out."
    ),
    cfg.FloatOpt(
        "max_hold", default=600.0, min=1.0, help="Longest hold in seconds that a parent may ask for."
    ),
    cfg.IntOpt(
        "max_attempts", default=3, min=1, help="Selects that one boot may make, and builds of one instance."
    ),
    cfg.FloatOpt(
        "retry_window", default=3600.0, min=1.0, help="Seconds that the answer of an ended attempt is kept."
    ),
    cfg.FloatOpt(
        "ended_retention",
        default=604_800.0,
        min=1.0,
        help="Seconds that a boot whose instances are all deleted is kept, with its Idempotency-Key.",
    ),
    cfg.FloatOpt(
        "retry_pause", default=1.0, min=0.05, help="First pause in seconds of a call that is repeated."
    ),
    cfg.FloatOpt("retry_pause_max", default=60.0, min=0.1, help="Longest pause in seconds of such a call."),
    cfg.FloatOpt(
        "instance_sync_interval",
        default=30.0,
        min=0.1,
        help="Seconds between two syncs of the instances in child zones.",
    ),
]
