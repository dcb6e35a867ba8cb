"""Session of one instance of the process driver: the launcher that starts its processes, and their end."""

from __future__ import annotations

import math
import signal
import subprocess

from zonesched.compute import launcher, process_table
from zonesched.compute.desired_state import Power
from zonesched.compute.instance_folder import InstanceFolder, Status
from zonesched.compute.process_surroundings import Surroundings

NOT_STARTED, ENDED = "process_not_started", "process_ended"
FAILED, KILLED = "process_failed", "process_killed"


class InstanceSession:
    """Starts, pauses and ends the processes of an instance; which they are is in its folder."""

    def __init__(self, around: Surroundings, folder: InstanceFolder) -> None:
        self._around = around
        self._folder = folder
        self._launched: subprocess.Popen[bytes] | None = None
        self._asked_to_end_at = math.inf

    @property
    def was_launched(self) -> bool:
        """Tell whether this agent has launched it."""
        return self._launched is not None

    @property
    def was_refused(self) -> bool:
        """Tell whether its launcher came after the end of the agent's lease."""
        return self._launched is not None and self._launched.poll() == launcher.LAPSED

    @property
    def is_asked_to_end(self) -> bool:
        """Tell whether its end was asked for and is still wanted."""
        return self._asked_to_end_at != math.inf

    def launch(self) -> None:
        """Start a launcher, which becomes the instance."""
        self._launched = self._around.launch(self._folder)

    def forget_launch(self) -> None:
        """Let it be launched again."""
        self._launched = None

    def is_starting(self, status: Status) -> bool:
        """Tell whether a launcher may still become the instance."""
        if status is Status.PREPARED:
            return self._launched is not None and self._launched.poll() is None
        return status is Status.STARTING

    def pause_or_resume(self, power: Power) -> None:
        """Send the signal that pauses its processes or lets them go on."""
        if (process := self._folder.process()) is not None:
            process_table.send(process, signal.SIGSTOP if power is Power.PAUSED else signal.SIGCONT)

    def has_ended(self, *, is_hard: bool = False) -> bool:
        """Tell whether nothing of it runs; otherwise ask for its end, and kill it after `stop_s`.

        `is_hard`: kill it at once.
        """
        process = self._folder.process()
        if process is None or not (process_table.is_alive(process) or process_table.members(process)):
            return True
        now = self._around.monotonic()
        is_first = not self.is_asked_to_end
        self._asked_to_end_at = min(self._asked_to_end_at, now)
        is_led = process_table.is_alive(process)
        if is_hard or not is_led or now - self._asked_to_end_at > self._around.stop_s:
            process_table.send(process, signal.SIGKILL)
        elif is_first:
            # One that is paused hears the first once it goes on.
            process_table.send(process, signal.SIGTERM, signal.SIGCONT)
        return False

    def withdraw_end(self) -> None:
        """Ask no longer for its end: whoever asks next gives it the whole time again."""
        self._asked_to_end_at = math.inf

    def why_ended(self) -> str:
        """Return the reason code of its end."""
        if self._folder.was_not_started() or self._folder.process() is None:
            return NOT_STARTED
        # The exit code of a process that an earlier agent started is unknown.
        code = self._launched.wait() if self._launched is not None else 0
        if code < 0:
            return KILLED
        return FAILED if code else ENDED
