"""Bodies of actions on instances: an object with one key, which names the action."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import Name, Schema, Text, TextMap, refusal
from zonesched.api.schemas.servers import UserData
from zonesched.model.desired_state import Action
from zonesched.model.instance_action import (
    AskedAction,
    LockServer,
    MigrateServer,
    RebuildServer,
    UnlockServer,
)


class Reboot(Schema):
    type: Literal["SOFT", "HARD"]


class Lock(Schema):
    locked_reason: Text = ""


class Rebuild(Schema):
    """The image to rebuild from, and what else changes; null removes, a part left out stays."""

    image_ref: Name = Field(alias="imageRef")
    name: Name | None = None
    metadata: TextMap | None = None
    description: Text | None = None
    key_name: Name | None = None
    user_data: UserData | None = None
    preserve_ephemeral: Literal[False] = False

    def to_action(self) -> RebuildServer:
        given = self.model_dump(include=_KEPT, exclude_unset=True)
        return RebuildServer(self.image_ref, self.name or "", given)


_KEPT = {"metadata", "description", "key_name", "user_data"}


class Migrate(Schema):
    host: Name | None = None


class ActionBody(Schema):
    """One action; null is the value of those without members."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    os_start: None = Field(default=None, alias="os-start")
    os_stop: None = Field(default=None, alias="os-stop")
    pause: None = None
    unpause: None = None
    suspend: None = None
    resume: None = None
    reboot: Reboot | None = None
    shelve: None = None
    unshelve: None = None
    lock: Lock | None = None
    unlock: None = None
    rebuild: Rebuild | None = None
    migrate: Migrate | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ActionBody:
        if len(self.model_fields_set) != 1:
            raise refusal("invalid_value", f"must have one of {', '.join(_NAMES)}")
        if "reboot" in self.model_fields_set and self.reboot is None:
            raise refusal("invalid_value", "reboot must have a type")
        if "rebuild" in self.model_fields_set and self.rebuild is None:
            raise refusal("invalid_value", "rebuild must have an imageRef")
        return self

    def to_action(self) -> AskedAction:
        (name,) = self.model_fields_set
        match name:
            case "lock":
                return LockServer(self.lock.locked_reason if self.lock is not None else "")
            case "unlock":
                return UnlockServer()
            case "rebuild" if self.rebuild is not None:
                return self.rebuild.to_action()
            case "migrate":
                return MigrateServer((self.migrate.host or "") if self.migrate is not None else "")
            case "reboot":
                is_hard = self.reboot is not None and self.reboot.type == "HARD"
                return Action.HARD_REBOOT if is_hard else Action.SOFT_REBOOT
            case _:
                return Action(ActionBody.model_fields[name].alias or name)


_NAMES = [field.alias or name for name, field in ActionBody.model_fields.items()]
