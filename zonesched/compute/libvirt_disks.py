"""Disks of the libvirt driver: a folder for each instance with its disk and the output of its console.

A disk is qcow2 over the file of its image, which many instances share and none changes. The folder of images
has them as NAME.qcow2 or NAME.raw, by the image's id or else by its name.

The folder of images may be on a server that is gone, where whoever looks into it waits until it is killed. So
only other programs do.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonesched.compute.libvirt_domain import Refused
from zonesched.compute.machine import Key
from zonesched.errors import ConfigError

GB = 2**30
QEMU_IMG_S, LOOK_UP_S = 60.0, 10.0
IMAGE_MISSING, IMAGE_TOO_LARGE, DISK_NOT_MADE = "image_file_missing", "image_too_large", "disk_not_made"
IMAGES_AWAY = "image_folder_away"
REAL_FOLDER = 'cd -P -- "$1" && pwd -P'
FIRST_FILE = 'for path; do if [ -f "$path" ]; then printf %s "$path"; exit; fi; done'
"""Programs of the shell: the folder without links, and the first of some paths that is a file."""
FORMATS = ("qcow2", "raw")
SAFE_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._ -]{0,254}")
"""Names of images that may be those of files: nothing in them leads out of the folder."""


log = logging.getLogger(__name__)


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

    def has_disk(self, key: Key) -> bool:
        """Tell whether an instance has a disk here."""
        return (self._folder(key) / "disk.qcow2").exists()

    def check(self, image: Mapping[str, Any]) -> None:
        """Raise Refused where a disk cannot be made from an image."""
        self._base(image)

    def make(self, key: Key, image: Mapping[str, Any], disk_gb: int) -> None:
        """Make a new disk in place of one that may be there, whole or not; 0 GB: as large as its image.

        What an earlier disk's guest has printed goes with that disk. Raises Refused.
        """
        base, disk = self._base(image), self.disk(key, disk_gb)
        try:
            self._folder(key).mkdir(parents=True, exist_ok=True)
            # Libvirt's own users pass through to the disk, whatever the agent's umask.
            self._folder(key).chmod(0o711)
            if disk is not None:
                self._make(disk, base, disk_gb)
            # Libvirt's virtlogd keeps older output beside it.
            for printed in self._folder(key).glob(f"{self.console(key).name}*"):
                printed.unlink()
        except OSError as error:
            raise Refused(DISK_NOT_MADE, str(error)) from None

    def _make(self, disk: Path, base: Base | None, disk_gb: int) -> None:
        new = disk.with_suffix(".new")
        new.unlink(missing_ok=True)
        arguments = ["create", "-q", "-f", "qcow2"]
        if base is not None:
            if disk_gb and self._size(base) > disk_gb * GB:
                raise Refused(IMAGE_TOO_LARGE, f"{base.path} does not fit into {disk_gb} GB")
            arguments += ["-b", str(base.path), "-F", base.format]
        _qemu_img([*arguments, str(new), *([f"{disk_gb}G"] if disk_gb else [])])
        new.rename(disk)

    def remove(self, key: Key) -> None:
        """Remove all of an instance."""
        shutil.rmtree(self._folder(key), ignore_errors=True)

    def _folder(self, key: Key) -> Path:
        return self._root / f"{key.uuid}.{key.attempt}"

    def _base(self, image: Mapping[str, Any]) -> Base | None:
        if self._images is None:
            return None
        names = filter(SAFE_NAME.fullmatch, _names(image))
        bases = {str(path): Base(path, path.suffix[1:]) for path in self._files(names)}
        # Nothing also where the file system takes no such name, as one of 252 characters.
        found = _run(["sh", "-c", FIRST_FILE, "sh", *bases], LOOK_UP_S, IMAGES_AWAY).decode(errors="replace")
        if found in bases:
            return bases[found]
        raise Refused(IMAGE_MISSING, f"{self._images} has no file of the image {_names(image)!r}")

    def _files(self, names: Iterable[str]) -> Iterator[Path]:
        assert self._images is not None
        for name in names:
            yield from (self._images / f"{name}.{form}" for form in FORMATS)

    @staticmethod
    def _size(base: Base) -> int:
        found = _qemu_img(["info", "--output=json", "-f", base.format, str(base.path)])
        return int(json.loads(found)["virtual-size"])


def _names(image: Mapping[str, Any]) -> tuple[str, str]:
    return str(image.get("id", "")), str(image.get("name", ""))


def real_folder(named: str) -> Path:
    """Return the folder without links. Raises ConfigError where there is none.

    One that does not answer is taken as it is named: its instances can be stopped and deleted all the same.
    """
    path = Path(os.path.abspath(named))
    try:
        return Path(
            os.fsdecode(_run(["sh", "-c", REAL_FOLDER, "sh", str(path)], LOOK_UP_S, IMAGES_AWAY)[:-1])
        )
    except Refused as refused:
        if refused.reason != IMAGES_AWAY:
            raise ConfigError(
                f"The folder of images {path} does not exist.", field="libvirt_image_folder"
            ) from None
        log.error("the folder of images %s does not answer: nothing is built from images until it does", path)
        return path


def _qemu_img(arguments: list[str]) -> bytes:
    """Run qemu-img. Raises Refused or, where it is not installed, OSError."""
    return _run(["qemu-img", *arguments], QEMU_IMG_S, DISK_NOT_MADE)


def _run(command: list[str], time_s: float, late: str) -> bytes:
    """Return what a program prints. Raises Refused, with the reason `late` where it takes longer."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=time_s)
    except subprocess.TimeoutExpired:
        raise Refused(late, f"{command[0]} {command[1]} took more than {time_s:g} s") from None
    if done.returncode:
        raise Refused(DISK_NOT_MADE, done.stderr.decode(errors="replace").strip())
    return done.stdout
