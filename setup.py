"""Packaging lives in pyproject.toml; this file adds the samples in etc/ to wheels, as zonesched/etc/."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).parent


class BuildWithSamples(build_py):
    """Copy etc/ into the package that a wheel is made from."""

    def run(self):
        super().run()
        if not self.editable_mode:
            shutil.copytree(CHECKOUT / "etc", Path(self.build_lib, "zonesched", "etc"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithSamples})
