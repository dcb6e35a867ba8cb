"""The same hosts and the same request, given to OpenStack Nova's own filters and weighers and to ours."""
