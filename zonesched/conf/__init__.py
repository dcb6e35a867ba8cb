"""The options of a zone: one oslo.config instance per zone, never a global.

`load` reads configuration files; the sample in etc/ is generated from `SAMPLE_GROUPS`. Every option changes
a result.
"""

from zonesched.conf.checks import SAMPLE_KEY
from zonesched.conf.loading import ALL, SAMPLE_GROUPS, Conf, load

__all__ = ["ALL", "SAMPLE_GROUPS", "SAMPLE_KEY", "Conf", "load"]
