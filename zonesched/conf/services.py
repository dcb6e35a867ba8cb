"""The options of what the processes and agents of a zone tell each other beside its database and HTTP."""

from __future__ import annotations

from oslo_config import cfg

SERVICES = [
    cfg.StrOpt(
        "host",
        default="",
        help="This machine among the zone's services; empty: the name it has. A process is host:bind_port.",
    ),
    cfg.FloatOpt(
        "service_down_time", default=60.0, min=1.0, help="Seconds without a heartbeat until an agent is down."
    ),
    cfg.FloatOpt(
        "instance_build_timeout",
        default=900.0,
        min=1.0,
        help="Seconds after which a build that its agent has not reported is placed again, if the agent never"
        " fetched it, or else is ERROR build_timeout. Longer than the slowest build takes.",
    ),
    cfg.StrOpt(
        "servicegroup_driver",
        default="db",
        secret=True,
        help="Where agents say that they live. db: to the zone itself. Or the URL of a group that they join:"
        " redis://host:6379, memcached://, zookeeper:// or etcd3+http://.",
    ),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="RabbitMQ through which the zone's processes and agents wake each other, as"
        " amqp://user:password@host:5672/vhost, or amqps. Empty: each looks by itself now and then.",
    ),
]
