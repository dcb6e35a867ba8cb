"""Disks of the libvirt driver: a folder for each instance with its disk and the output of its console.

A disk is qcow2 over the file of its image, which many instances share and none changes. The folder of images
has them as NAME.qcow2 or NAME.raw, by the image's id or else by its name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonesched.compute.libvirt_domain import Refused
from zonesched.compute.machine import Key

GB = 2**30
QEMU_IMG_S = 60.0
IMAGE_MISSING, IMAGE_TOO_LARGE, DISK_NOT_MADE = "image_file_missing", "image_too_large", "disk_not_made"
FORMATS = ("qcow2", "raw")
SAFE_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._ -]{0,254}")
"""Names of images that may be those of files: nothing in them leads out of the folder."""


@dataclass(frozen=True)
class Base:
    """File of an image; its format is that of its name and never guessed from its content."""

    path: Path
    format: str


class Disks:
    """Folders of instances in `root`. `images`: the folder of images; without one all disks begin empty."""

    def __init__(self, root: Path, images: Path | None) -> None:
        self._root = root
        self._images = images

    def console(self, key: Key) -> Path:
        """Return the file that the serial console of an instance is written to."""
        return self._folder(key) / "console.log"

    def disk(self, key: Key, disk_gb: int) -> Path | None:
        """Return the disk of an instance; None for one of 0 GB where no image has a file."""
        return self._folder(key) / "disk.qcow2" if disk_gb or self._images is not None else None

    def check(self, image: Mapping[str, Any]) -> None:
        """Raise Refused where a disk cannot be made from an image."""
        self._base(image)

    def make(self, key: Key, image: Mapping[str, Any], disk_gb: int) -> None:
        """Make a new disk in place of one that may be there, whole or not; 0 GB: as large as its image.

        Raises Refused.
        """
        base, disk = self._base(image), self.disk(key, disk_gb)
        try:
            self._folder(key).mkdir(parents=True, exist_ok=True, mode=0o711)
            if disk is None:
                return
            new = disk.with_suffix(".new")
            new.unlink(missing_ok=True)
            arguments = ["create", "-q", "-f", "qcow2"]
            if base is not None:
                if disk_gb and self._size(base) > disk_gb * GB:
                    raise Refused(IMAGE_TOO_LARGE, f"{base.path} does not fit into {disk_gb} GB")
                arguments += ["-b", str(base.path), "-F", base.format]
            _qemu_img([*arguments, str(new), *([f"{disk_gb}G"] if disk_gb else [])])
            new.rename(disk)
        except OSError as error:
            raise Refused(DISK_NOT_MADE, str(error)) from None

    def remove(self, key: Key) -> None:
        """Remove all of an instance."""
        shutil.rmtree(self._folder(key), ignore_errors=True)

    def _folder(self, key: Key) -> Path:
        return self._root / f"{key.uuid}.{key.attempt}"

    def _base(self, image: Mapping[str, Any]) -> Base | None:
        if self._images is None:
            return None
        for name in filter(SAFE_NAME.fullmatch, _names(image)):
            for form in FORMATS:
                path = self._images / f"{name}.{form}"
                # False also where the file system takes no such name, as one of 252 characters.
                if os.path.isfile(path):
                    return Base(path, form)
        raise Refused(IMAGE_MISSING, f"{self._images} has no file of the image {_names(image)!r}")

    @staticmethod
    def _size(base: Base) -> int:
        found = _qemu_img(["info", "--output=json", "-f", base.format, str(base.path)])
        return int(json.loads(found)["virtual-size"])


def _names(image: Mapping[str, Any]) -> tuple[str, str]:
    return str(image.get("id", "")), str(image.get("name", ""))


def _qemu_img(arguments: list[str]) -> bytes:
    """Run qemu-img. Raises Refused or, where it is not installed, OSError."""
    try:
        done = subprocess.run(
            ["qemu-img", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=QEMU_IMG_S
        )
    except subprocess.TimeoutExpired:
        raise Refused(DISK_NOT_MADE, f"qemu-img {arguments[0]} took more than {QEMU_IMG_S:.0f} s") from None
    if done.returncode:
        raise Refused(DISK_NOT_MADE, done.stderr.decode(errors="replace").strip())
    return done.stdout
