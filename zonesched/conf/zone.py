"""Options of a zone: its identity, API, sealing, selects, child zones and boots."""

from __future__ import annotations

from oslo_config import cfg

from zonesched.conf.bounds import LONGEST_S, MOST

DEFAULT_PORT = 8790
"""A port that no service of OpenStack listens on: a zone and a Nova fit on one machine."""

ZONE = [
    cfg.StrOpt(
        "zone_name",
        default="nova",
        help="Name of this zone, at most 128 bytes. Two zones may have the same name.",
    ),
    cfg.ListOpt(
        "zone_capabilities",
        default=[],
        help="Capabilities of the whole zone, as key=value;value. A flavor requires one with zone:key=value.",
    ),
    cfg.StrOpt("state_path", default="zone-state", help="Folder of this zone's files."),
    cfg.StrOpt(
        "database_url",
        default="sqlite:///$state_path/zone.sqlite",
        help="SQLAlchemy URL of the zone's database. PostgreSQL on another machine has sslmode=verify-full,"
        " unless the URL has a sslmode.",
    ),
]

API = [
    cfg.StrOpt("bind_host", default="127.0.0.1", help="Address to listen on."),
    cfg.PortOpt("bind_port", default=DEFAULT_PORT, help="Port to listen on."),
    cfg.IntOpt(
        "api_threads", default=32, min=1, max=512, help="Maximum number of requests served at the same time."
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="http_basic",
        choices=["http_basic", "noauth"],
        help="http_basic: callers are users in this zone's database. noauth: every caller is trusted as"
        " admin; loopback only.",
    ),
    cfg.BoolOpt(
        "noauth_force",
        default=False,
        help="Allow noauth on an address, and for a Host, that is not loopback.",
    ),
    cfg.BoolOpt("allow_admin_api", default=True, help="False: every call under /zones answers 403."),
    cfg.BoolOpt("allow_dashboard", default=True, help="False: there is nothing at /dashboard."),
    cfg.FloatOpt(
        "dashboard_session",
        default=43_200.0,
        min=60.0,
        max=2_592_000.0,
        help="Seconds until a session of the dashboard expires.",
    ),
    cfg.BoolOpt(
        "enable_zone_routing",
        default=True,
        help="Forward calls about one instance to the child zone that has it. "
        "False: actions on it, and deletes by others than parent zones, are refused; reads ask no child.",
    ),
    cfg.IntOpt(
        "max_body_bytes",
        default=16 * 2**20,
        min=1024,
        max=MOST,
        help="Maximum size in bytes of a request body; above it, 413.",
    ),
    cfg.IntOpt(
        "max_instances_per_request",
        default=10_000,
        min=1,
        max=100_000,
        help="Maximum num_instances of a boot of this zone's own users.",
    ),
    cfg.StrOpt(
        "log_format",
        default="text",
        choices=["text", "json"],
        help="Log lines as key=value (text) or as JSON objects.",
    ),
    cfg.StrOpt(
        "log_level",
        default="INFO",
        choices=["DEBUG", "INFO", "WARNING", "ERROR"],
        help="Least level of the lines that are logged. Polls of machines are DEBUG.",
    ),
    cfg.StrOpt(
        "audit_log",
        default="",
        help="File to which each write and each refused call is appended as a line of JSON. Empty: none.",
    ),
    cfg.ListOpt(
        "cors_allowed_origins",
        default=[],
        help="Origins, such as https://panel.example, whose pages may call this zone from a browser. Empty:"
        " none.",
    ),
    cfg.IntOpt(
        "max_server_groups",
        default=1000,
        min=1,
        max=MOST,
        help="Maximum number of server groups of one project.",
    ),
]

SEAL = [
    cfg.ListOpt(
        "build_plan_encryption_key",
        default=[],
        secret=True,
        help="Keys of sealed entries, 64 hex digits each; the first seals, all open. `zonesched key generate`"
        " makes a key. A zone without a key boots on its local hosts and refuses select.",
    ),
    cfg.IntOpt(
        "build_plan_blob_size",
        default=0,
        min=0,
        max=65_536,
        help="Size in bytes of every sealed entry. 0: 256 without children, else the largest size of a"
        " child's entries + 128, rounded up to a multiple of 256, at most 8192.",
    ),
    cfg.FloatOpt(
        "build_plan_ttl", default=60.0, min=1.0, max=300.0, help="Seconds until a sealed entry expires."
    ),
    cfg.ListOpt(
        "secret_encryption_key",
        default=[],
        secret=True,
        help="Keys of the secrets in the database, 64 hex digits each: the zone's own, the children's"
        " credentials, user_data. The first encrypts, at start also older secrets; all decrypt. A zone with"
        " children needs one.",
    ),
]

SELECT = [
    cfg.FloatOpt(
        "select_timeout",
        default=10.0,
        min=0.1,
        max=3600.0,
        help="Time budget in seconds of a select that starts in this zone.",
    ),
    cfg.FloatOpt(
        "max_time_budget",
        default=60.0,
        min=1.0,
        max=3600.0,
        help="Maximum time in seconds that this zone works on a parent's select or build.",
    ),
    cfg.FloatOpt(
        "select_reserve",
        default=0.25,
        min=0.0,
        max=LONGEST_S,
        help="Seconds of a select's time budget that this zone reserves for itself, at most a fifth of it;"
        " children get the rest.",
    ),
    cfg.IntOpt(
        "max_entries_per_select",
        default=10_000,
        min=1,
        max=MOST,
        help="Maximum number of entries in the answer to a parent's select.",
    ),
    cfg.IntOpt(
        "select_alternates",
        default=3,
        min=0,
        max=1000,
        help="Number of alternates that each select asks for.",
    ),
    cfg.IntOpt(
        "select_page",
        default=100,
        min=1,
        max=MOST,
        help="Minimum number of offers that a child zone is asked for. For more instances each is asked"
        " for its likely share, and for the rest only if that share is used up. Raise it where a round trip"
        " takes long.",
    ),
    cfg.StrOpt(
        "explain_to_parent",
        default="reasons",
        choices=["none", "reasons", "counts"],
        help="Detail that a parent sees of the reasons why hosts were refused.",
    ),
]

CHILDREN = [
    cfg.FloatOpt(
        "zone_db_check_interval",
        default=10.0,
        min=0.1,
        max=LONGEST_S,
        help="Seconds between two polls of the child zones.",
    ),
    cfg.IntOpt(
        "zone_failures_to_offline",
        default=3,
        min=1,
        max=MOST,
        help="Consecutive failed polls after which a child is inactive.",
    ),
    cfg.FloatOpt(
        "zone_poll_timeout",
        default=5.0,
        min=0.1,
        max=LONGEST_S,
        help="Maximum time in seconds of one poll of a child, and of this zone's own answer to one.",
    ),
    cfg.ListOpt(
        "child_networks",
        default=["public", "private"],
        help="Networks that children may be in: public, private, loopback, link-local, or networks such as"
        " 10.1.0.0/16.",
    ),
    cfg.BoolOpt("allow_plain_http", default=False, help="Allow http:// children that are not on loopback."),
    cfg.StrOpt("child_ca_file", default="", help="File of CA certificates that verify children's https."),
    cfg.IntOpt(
        "child_answer_bytes",
        default=64 * 2**20,
        min=1024,
        max=MOST,
        help="Maximum size in bytes of a child's answer.",
    ),
]

BOOT = [
    cfg.IntOpt(
        "boot_workers",
        default=4,
        min=1,
        max=64,
        help="Maximum number of boots that one process works on at the same time.",
    ),
    cfg.FloatOpt(
        "boot_lease",
        default=60.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds after which another worker takes over a boot whose worker has stopped.",
    ),
    cfg.FloatOpt(
        "boot_poll_interval",
        default=2.0,
        min=0.05,
        max=LONGEST_S,
        help="Seconds between two polls for boots to continue.",
    ),
    cfg.FloatOpt(
        "build_timeout",
        default=30.0,
        min=0.1,
        max=3600.0,
        help="Maximum time in seconds of one call of a boot to a child. A call for holds takes at most half"
        " of the time in which the boot's holds can be confirmed.",
    ),
    cfg.FloatOpt(
        "hold", default=30.0, min=1.0, max=600.0, help="Seconds that a hold lasts without a confirm."
    ),
    cfg.FloatOpt(
        "hold_margin",
        default=5.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds that a hold must have left when its confirm is sent.",
    ),
    cfg.FloatOpt(
        "max_hold",
        default=120.0,
        min=1.0,
        max=LONGEST_S,
        help="Maximum hold in seconds that a parent may ask for.",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        max=MOST,
        help="Maximum number of selects of one boot for each flavor of its instances, and of builds of one "
        "instance.",
    ),
    cfg.FloatOpt(
        "child_outage_wait",
        default=60.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds after its acceptance for which a boot that finds too few places waits for a zone that"
        " says that its database is away. Selects of that time do not count for max_attempts.",
    ),
    cfg.FloatOpt(
        "retry_window",
        default=3600.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds that the answer of an ended attempt is kept.",
    ),
    cfg.FloatOpt(
        "ended_retention",
        default=604_800.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds that a boot is kept, with its Idempotency-Key, after all its instances are deleted.",
    ),
    cfg.FloatOpt(
        "retry_pause",
        default=1.0,
        min=0.05,
        max=LONGEST_S,
        help="Seconds before a failed call is repeated the first time.",
    ),
    cfg.FloatOpt(
        "retry_pause_max",
        default=60.0,
        min=0.1,
        max=LONGEST_S,
        help="Maximum time in seconds between two such repeats.",
    ),
    cfg.FloatOpt(
        "instance_sync_interval",
        default=30.0,
        min=0.1,
        max=LONGEST_S,
        help="Seconds between two syncs of the instances in child zones.",
    ),
]
