"""The dashboard: pages for a zone's users, made of what the zone's own API answers them."""
