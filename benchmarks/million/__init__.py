"""Two million instances over ten regions: the size of the C2M challenge, as durable claims."""
