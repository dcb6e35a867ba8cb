"""The HTTP surface of a zone; the only package that imports Flask.

`urls.URLS` is the table of all calls; `dispatch.serve` handles one call.
"""
