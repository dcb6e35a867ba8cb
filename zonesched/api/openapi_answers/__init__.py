"""Forms of answers in the OpenAPI description, noun by noun."""
