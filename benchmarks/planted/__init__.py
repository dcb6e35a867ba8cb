"""One-line bugs, and which tests catch them."""
