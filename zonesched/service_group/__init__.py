"""Service groups: heartbeats of a zone's services through Redis, memcached, ZooKeeper or etcd."""
