"""Process-local state of one zone: hosts in memory, quotas, notifications, children."""
