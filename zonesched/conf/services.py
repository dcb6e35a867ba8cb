"""Options of the services of a zone, their heartbeats and their notifications."""

from __future__ import annotations

from oslo_config import cfg

from zonesched.conf.bounds import LONGEST_S
from zonesched.remote_services import ALLOW

SERVICES = [
    cfg.StrOpt(
        "host",
        default="",
        help="Name of this machine in the zone's list of services, where a process is host:bind_port. Empty:"
        " the machine's hostname.",
    ),
    cfg.FloatOpt(
        "service_down_time",
        default=60.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds without a heartbeat after which an agent is down.",
    ),
    cfg.BoolOpt(
        "evacuate_automatically",
        default=False,
        help="Place the servers of a host anew by itself once the host is down and its agent, which runs with"
        " --fence-after, has ended them. Otherwise an admin evacuates it.",
    ),
    cfg.FloatOpt(
        "instance_build_timeout",
        default=900.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds that a build may go without a report of its agent. Then it is placed again if the agent"
        " never fetched it, or else fails with build_timeout. Set it longer than the slowest build.",
    ),
    cfg.FloatOpt(
        "resize_confirm_window",
        default=0.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds after which a resize of this zone's own users is confirmed by itself. 0: never.",
    ),
    cfg.FloatOpt(
        "reclaim_instance_interval",
        default=0.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds for which this zone's own users may restore a server that they have deleted. It is"
        " stopped meanwhile, keeps its place and counts against quotas. 0: a delete is final.",
    ),
    cfg.StrOpt(
        "servicegroup_driver",
        default="db",
        secret=True,
        help="Where agents send their heartbeats. db: to the zone itself. Or the URL of a group that they"
        " join: redis://host:6379, memcached://, zookeeper:// or etcd3+http://; with TLS, rediss:// or"
        " etcd3+https://.",
    ),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="RabbitMQ through which the zone's processes and agents wake each other, as"
        " amqp://user:password@host:5672/vhost, or amqps. Empty: each polls at its own interval.",
    ),
    cfg.BoolOpt(
        ALLOW,
        default=False,
        help="Allow a database, broker or service group on another machine without TLS that checks the"
        " server's name. Passwords and data can then be read and changed on the way; each start warns.",
    ),
]
