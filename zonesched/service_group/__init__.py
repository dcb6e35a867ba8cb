"""Who of a zone's services lives, said through a group in Redis, memcached, ZooKeeper or etcd."""
