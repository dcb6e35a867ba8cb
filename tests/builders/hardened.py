"""Run a command with the restrictions of a unit for systemd: `python hardened.py UNIT FOLDER COMMAND...`

Only what a process can do to itself: no new privileges and no capabilities, the filters of system calls,
address families, namespaces and of memory that can be written and executed, and, as root, a file system that
is read-only but for FOLDER. What else a unit says is left out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITIES = range(41)
CLONE_NEWNS = 0x20000
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
EQUAL, MASKED_EQUAL = 4, 7
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
PROT_WRITE, PROT_EXEC = 2, 4
NAMESPACES = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
CHECKED = ("socket", "mmap", "mprotect", "pkey_mprotect", "clone", "clone3", "unshare", "setns")
"""System calls whose arguments decide."""

Unit = Mapping[str, Sequence[str]]


class Argument(ctypes.Structure):
    """Condition of a rule on one argument: libseccomp's struct scmp_arg_cmp."""

    _fields_ = (
        ("number", ctypes.c_uint),
        ("comparison", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def settings(unit: Path) -> Unit:
    """Return the values of each setting of a unit, in their order."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"(?m)^(\w+)=(.*)$", unit.read_text().replace("\\\n", " ")):
        found.setdefault(name, []).append(value)
    return found


def calls_of(name: str) -> Iterator[str]:
    """Yield the system calls of a set such as @system-service; any other name is itself."""
    if not name.startswith("@"):
        yield name
        return
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True
    ).stdout
    for line in listed.splitlines()[1:]:
        if (call := line.strip()) and not call.startswith("#"):
            yield from calls_of(call)


def allowed_calls(filters: Sequence[str]) -> set[str]:
    """Return the system calls that are left after the lines of SystemCallFilter."""
    found: set[str] = set()
    for line in filters:
        calls = {call for name in line.removeprefix("~").split() for call in calls_of(name)}
        found = found - calls if line.startswith("~") else found | calls
    return found


def restrict_calls(unit: Unit) -> None:
    """Filter the system calls of this process and of all that it starts."""
    seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(REFUSE | errno.EPERM))

    def add(action: int, call: str, *arguments: Argument) -> None:
        number = seccomp.seccomp_syscall_resolve_name(call.encode())
        # Negative: a call that this machine does not have.
        if number >= 0:
            array = (Argument * len(arguments))(*arguments)
            failed = seccomp.seccomp_rule_add_array(rules, action, number, len(arguments), array)
            assert not failed, (call, failed)

    for call in allowed_calls(unit["SystemCallFilter"]).difference(CHECKED):
        add(ALLOW, call)
    for family in unit["RestrictAddressFamilies"][0].split():
        add(ALLOW, "socket", Argument(0, EQUAL, FAMILIES[family], 0))
    if unit.get("MemoryDenyWriteExecute") == ["true"]:
        for protection in (0, PROT_WRITE, PROT_EXEC):
            add(ALLOW, "mmap", Argument(2, MASKED_EQUAL, PROT_WRITE | PROT_EXEC, protection))
        for call in ("mprotect", "pkey_mprotect"):
            add(ALLOW, call, Argument(2, MASKED_EQUAL, PROT_EXEC, 0))
    else:
        for call in ("mmap", "mprotect", "pkey_mprotect"):
            add(ALLOW, call)
    assert unit["RestrictNamespaces"] == ["true"]
    for call in ("clone", "unshare"):
        add(ALLOW, call, Argument(0, MASKED_EQUAL, NAMESPACES, 0))
    # Its flags are in memory: callers fall back to clone.
    add(REFUSE | errno.ENOSYS, "clone3")
    failed = seccomp.seccomp_load(rules)
    assert not failed, failed


def make_read_only(folder: Path) -> None:
    """Let nothing but `folder` be written."""
    assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
    for command in (
        ("mount", "--make-rprivate", "/"),
        ("mount", "--bind", folder, folder),
        ("mount", "-o", "remount,bind,ro", "/"),
    ):
        subprocess.run(command, check=True)


def drop_privileges() -> None:
    """Give up all capabilities for good."""
    libc = ctypes.CDLL(None)
    for capability in CAPABILITIES:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def main() -> None:
    unit, folder, command = settings(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3:]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["NoNewPrivileges"] == ["true"]
    assert unit["CapabilityBoundingSet"] == [""]
    if os.geteuid() == 0:
        make_read_only(folder)
    drop_privileges()
    os.chdir(folder)
    os.environ["TMPDIR"] = str(folder)
    restrict_calls(unit)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
