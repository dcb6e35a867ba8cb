"""Bodies of actions on instances: an object with one key, which names the action."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import Name, Schema, Text, TextMap, refusal
from zonesched.api.schemas.servers import UserData
from zonesched.api.schemas.services import Evacuation
from zonesched.api.schemas.unsupported_actions import UnsupportedActions
from zonesched.model.desired_state import Action
from zonesched.model.instance_action import (
    AskedAction,
    DeleteServer,
    EvacuateServer,
    LockServer,
    MigrateServer,
    RebuildServer,
    UnlockServer,
    UnsupportedAction,
)
from zonesched.model.unsupported_action import LACK_OF


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


_MAY_BE_NULL = {"lock", "rescue", "migrate"}


class ActionBody(UnsupportedActions):
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
    force_delete: None = Field(default=None, alias="forceDelete")
    evacuate: Evacuation | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ActionBody:
        if len(self.model_fields_set) != 1:
            raise refusal("invalid_value", f"must have one of {', '.join(_NAMES)}")
        (name,) = self.model_fields_set
        field = ActionBody.model_fields[name]
        if getattr(self, name) is None and field.annotation is not type(None) and name not in _MAY_BE_NULL:
            raise refusal("invalid_value", f"{field.alias or name} must be an object")
        return self

    def to_action(self) -> AskedAction | DeleteServer | EvacuateServer:
        (name,) = self.model_fields_set
        key = ActionBody.model_fields[name].alias or name
        match name:
            case _ if key in LACK_OF:
                return UnsupportedAction(key)
            case "force_delete":
                return DeleteServer()
            case "lock":
                return LockServer(self.lock.locked_reason if self.lock is not None else "")
            case "unlock":
                return UnlockServer()
            case "evacuate":
                return EvacuateServer(self.evacuate is not None and self.evacuate.fenced)
            case "rebuild" if self.rebuild is not None:
                return self.rebuild.to_action()
            case "migrate":
                return MigrateServer((self.migrate.host or "") if self.migrate is not None else "")
            case "reboot":
                is_hard = self.reboot is not None and self.reboot.type == "HARD"
                return Action.HARD_REBOOT if is_hard else Action.SOFT_REBOOT
            case _:
                return Action(key)


_NAMES = [field.alias or name for name, field in ActionBody.model_fields.items()]
