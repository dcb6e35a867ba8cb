"""Bodies of actions on instances: an object with one key, which names the action."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from zonesched.api.schemas.body_limit import SMALL, BodyLimit
from zonesched.api.schemas.fields import Schema, Text, refusal
from zonesched.model.desired_state import Action
from zonesched.model.instance_action import AskedAction, LockServer, UnlockServer


class Reboot(Schema):
    type: Literal["SOFT", "HARD"]


class Lock(Schema):
    locked_reason: Text = ""


class ActionBody(Schema):
    """One action; null is the value of those without members."""

    body_limit: ClassVar[BodyLimit] = SMALL

    os_start: None = Field(default=None, alias="os-start")
    os_stop: None = Field(default=None, alias="os-stop")
    pause: None = None
    unpause: None = None
    suspend: None = None
    resume: None = None
    reboot: Reboot | None = None
    lock: Lock | None = None
    unlock: None = None

    @model_validator(mode="after")
    def _is_one(self) -> ActionBody:
        if len(self.model_fields_set) != 1:
            raise refusal("invalid_value", f"must have one of {', '.join(_NAMES)}")
        if "reboot" in self.model_fields_set and self.reboot is None:
            raise refusal("invalid_value", "reboot must have a type")
        return self

    def to_action(self) -> AskedAction:
        (name,) = self.model_fields_set
        match name:
            case "lock":
                return LockServer(self.lock.locked_reason if self.lock is not None else "")
            case "unlock":
                return UnlockServer()
            case "reboot":
                is_hard = self.reboot is not None and self.reboot.type == "HARD"
                return Action.HARD_REBOOT if is_hard else Action.SOFT_REBOOT
            case _:
                return Action(ActionBody.model_fields[name].alias or name)


_NAMES = [field.alias or name for name, field in ActionBody.model_fields.items()]
