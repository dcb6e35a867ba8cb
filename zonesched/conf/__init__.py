"""The options of a zone: one oslo.config instance each, never a global.

Reading a file is `load`; `SAMPLE_GROUPS` is what the sample in etc/ is generated from. An option that
changes no result does not exist.
"""

from zonesched.conf.checks import SAMPLE_KEY
from zonesched.conf.loading import ALL, SAMPLE_GROUPS, Conf, load

__all__ = ["ALL", "SAMPLE_GROUPS", "SAMPLE_KEY", "Conf", "load"]
