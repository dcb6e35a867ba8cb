"""Bodies of actions on instances: an object with one key, which names the action."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    FlavorRef,
    GivenName,
    LenientQuery,
    Metadata,
    Name,
    PageLimit,
    Schema,
    SpelledBool,
    Text,
    refusal,
    upper,
)
from zonesched.api.schemas.moments import Moment, since_s, until_s
from zonesched.api.schemas.server_details import DiskConfig, ServerSettings
from zonesched.api.schemas.server_internals import ConsoleOutput
from zonesched.api.schemas.servers import UserData
from zonesched.api.schemas.services import Evacuation
from zonesched.api.schemas.unsupported_actions import Nothing, UnsupportedActions, nothing
from zonesched.model.action_table import Action
from zonesched.model.console import ReadConsole
from zonesched.model.instance_action import (
    AskedAction,
    DeleteServer,
    EvacuateServer,
    LockServer,
    MigrateServer,
    RebuildServer,
    ResizeServer,
    UnlockServer,
    UnsupportedAction,
)
from zonesched.model.unsupported_action import LACK_OF, PASSWORD


class ActionsQuery(LenientQuery):
    """The page of a list of actions, and since and until when they have changed."""

    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""
    changes_since: Moment = Field(default="", alias="changes-since")
    changes_before: Moment = Field(default="", alias="changes-before")

    def has(self, changed_at: float) -> bool:
        """Tell whether a change at this time, in epoch seconds, is asked for."""
        return not (
            (self.changes_since and changed_at < since_s(self.changes_since))
            or (self.changes_before and changed_at > until_s(self.changes_before))
        )


class Reboot(Schema):
    type: Annotated[Literal["SOFT", "HARD"], BeforeValidator(upper, json_schema_input_type=str)]


class Lock(Schema):
    locked_reason: Text = ""


class Rebuild(ServerSettings):
    """The image to rebuild from, and what else changes; null removes, a part left out stays."""

    image_ref: Name = Field(alias="imageRef")
    name: GivenName = ""
    metadata: Metadata | None = None
    description: Text | None = None
    key_name: GivenName | None = None
    user_data: UserData | None = None
    preserve_ephemeral: Literal[False] = False
    admin_pass: Text | None = Field(default=None, alias="adminPass")

    def to_action(self) -> RebuildServer:
        """Return the action. Raises BadRequest, and Conflict for a password."""
        if self.admin_pass is not None:
            field = "rebuild.adminPass"
            raise PASSWORD.error(f"{field}: {PASSWORD.message}", code=PASSWORD.code, field=field)
        given = {**self.settings("rebuild"), **self.given(_KEPT)}
        return RebuildServer(self.image_ref, self.name, given)


_KEPT = {"metadata", "description", "key_name", "user_data"}


class Resize(Schema):
    flavor_ref: FlavorRef = Field(alias="flavorRef")
    disk_config: DiskConfig | None = Field(default=None, alias="OS-DCF:diskConfig")


class Migrate(Schema):
    host: Name | None = None


def _not_shared(value: bool) -> bool:
    if value:
        raise refusal("invalid_value", "must be false: a server is built anew, without its disks")
    return value


class ServerEvacuation(Evacuation):
    """The form for a host; in it, clients of versions before 2.14 also name shared storage."""

    on_shared_storage: Annotated[SpelledBool, AfterValidator(_not_shared)] = Field(
        default=False, alias="onSharedStorage"
    )


class Unshelve(Schema):
    """The place that OpenStack Nova takes from 2.77 and 2.91 on; before, it does not look at it."""

    availability_zone: Text | None = None
    host: Text | None = None


_MAY_BE_NULL = {"unshelve", "lock", "rescue", "migrate"}


def _force(value: object) -> object:
    """Read an empty text, which gophercloud sends, as null."""
    return None if value == "" else nothing(value)


class ActionBody(UnsupportedActions):
    """One action; null, or an empty object, is the value of those without members."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    os_start: Nothing = Field(default=None, alias="os-start")
    os_stop: Nothing = Field(default=None, alias="os-stop")
    pause: Nothing = None
    unpause: Nothing = None
    suspend: Nothing = None
    resume: Nothing = None
    reboot: Reboot | None = None
    shelve: Nothing = None
    unshelve: Annotated[Unshelve | None, BeforeValidator(nothing)] = None
    lock: Lock | None = None
    unlock: Nothing = None
    rebuild: Rebuild | None = None
    migrate: Migrate | None = None
    resize: Resize | None = None
    confirm_resize: Nothing = Field(default=None, alias="confirmResize")
    revert_resize: Nothing = Field(default=None, alias="revertResize")
    restore: Nothing = None
    force_delete: Annotated[None, BeforeValidator(_force)] = Field(default=None, alias="forceDelete")
    evacuate: ServerEvacuation | None = None
    get_console_output: ConsoleOutput | None = Field(default=None, alias="os-getConsoleOutput")

    @model_validator(mode="after")
    def _is_one(self) -> ActionBody:
        if len(self.model_fields_set) != 1:
            raise refusal("invalid_value", f"must have one of {', '.join(_NAMES)}")
        (name,) = self.model_fields_set
        field = ActionBody.model_fields[name]
        if getattr(self, name) is None and field.annotation is not type(None) and name not in _MAY_BE_NULL:
            raise refusal("invalid_value", f"{field.alias or name} must be an object")
        return self

    def to_action(self) -> AskedAction | DeleteServer | EvacuateServer | ReadConsole:
        (name,) = self.model_fields_set
        key = ActionBody.model_fields[name].alias or name
        match name:
            case _ if key in LACK_OF:
                return UnsupportedAction(key)
            case "force_delete":
                return DeleteServer()
            case "get_console_output" if self.get_console_output is not None:
                return self.get_console_output.to_action()
            case "lock":
                return LockServer(self.lock.locked_reason if self.lock is not None else "")
            case "unlock":
                return UnlockServer()
            case "evacuate":
                return EvacuateServer(self.evacuate is not None and self.evacuate.fenced)
            case "rebuild" if self.rebuild is not None:
                return self.rebuild.to_action()
            case "resize" if self.resize is not None:
                return ResizeServer(self.resize.flavor_ref, self.resize.disk_config or "")
            case "migrate":
                return MigrateServer((self.migrate.host or "") if self.migrate is not None else "")
            case "reboot":
                is_hard = self.reboot is not None and self.reboot.type == "HARD"
                return Action.HARD_REBOOT if is_hard else Action.SOFT_REBOOT
            case _:
                return Action(key)


_NAMES = [field.alias or name for name, field in ActionBody.model_fields.items()]
