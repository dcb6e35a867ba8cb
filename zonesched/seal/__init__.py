"""The only package that imports cryptography: sealing entries and keeping secrets."""
