"""Times of boots, from the stamps of the zone that took them."""
