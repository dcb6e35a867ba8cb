"""The types that all schemas are made of, with their limits.

Everything is strict: an integer is a JSON integer, never a string, a boolean or 3.0; a key that is not named
is refused, since silently leaving it out would build something else than was asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from zonesched.api.schemas.body_limit import SMALL, BodyLimit
from zonesched.conf import Conf
from zonesched.decimal_text import decimal_number
from zonesched.model.controls import CONTROLS, CONTROLS_OF_ASCII
from zonesched.model.extra_specs import (
    GROUP_POLICY,
    fault_of_group_policy,
    resource_class_in,
    trait_in,
)
from zonesched.model.request_spec import MAX_TEXTS_BYTES, are_too_large

MAX_INT = 2**31 - 1
MAX_INSTANCES = 100_000
MAX_ITEMS = 128
MAX_AGENT_ITEMS = 2000
MAX_BUDGET_S = 3600.0
FREE_JSON_BYTES = 64 * 1024
CLASS_NAME = r"^[A-Z][A-Z0-9_]{0,63}$"
PRINTABLE = rf"^[^{CONTROLS}]*$"
KEPT = rf"^[^{CONTROLS_OF_ASCII}]*$"
"""Texts of a parent's images and flavors, which may be older than the rest of what PRINTABLE refuses."""
UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
SPELLED_UUID = r"^[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}$"
ITEM_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$"
FILTER_NAME = r"^[A-Za-z_][A-Za-z0-9_.]{0,254}$"

TAG_TEXT = rf"^[^,/{CONTROLS}]*$"
TRAIT = r"^[A-Za-z0-9_]{1,255}$"
TAGS = r"^[0-9a-f,]{0,512}$"
REASON_CODE = r"^[a-z0-9_]{0,64}$"
USER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,254}$"
KEYPAIR_NAME = r"^[A-Za-z0-9 ._@-]*$"
HOSTNAME = r"^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*)?$"

FORMS: Mapping[str, str] = {
    CLASS_NAME: "must be a resource class such as VCPU or CUSTOM_GPU",
    PRINTABLE: "must have no control characters",
    KEPT: "must have no control characters",
    UUID: "must be a uuid, in lower case and with hyphens",
    SPELLED_UUID: "must be a uuid",
    ITEM_ID: "must be 1 to 255 letters, digits and ._-, the first a letter or a digit",
    KEYPAIR_NAME: "must have only letters, digits, spaces and ._@-",
    HOSTNAME: "must be a host name: labels of 1 to 63 letters, digits and hyphens, with dots between",
    TAG_TEXT: "must have no comma, slash or control character",
    TAGS: "must be at most 512 of 0-9, a-f and commas",
    TRAIT: "must be 1 to 255 letters, digits and _",
    REASON_CODE: "must be at most 64 small letters, digits and _",
    USER_NAME: "must be 1 to 255 letters, digits and ._@-, the first a letter or a digit",
    FILTER_NAME: "must be the name of a filter, or a dotted path",
}
"""The words for each pattern, for messages."""


@dataclass(frozen=True)
class Limits:
    """Limits that the zone's options set, given to a validation as its context."""

    max_instances: int = MAX_INSTANCES
    max_builds: int = MAX_INSTANCES

    @classmethod
    def from_conf(cls, conf: Conf) -> Limits:
        """Return a zone's limits. It takes as many builds of a parent as it may have offered."""
        max_builds = max(conf.max_instances_per_request, min(conf.max_entries_per_select, MAX_INSTANCES))
        return cls(conf.max_instances_per_request, max_builds)


class Schema(BaseModel):
    """A JSON object with known keys and strict types; as a body, of at most `body_limit`."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        # A process builds the validators that it uses: those of all schemas are a tenth of a zone's start.
        defer_build=True,
    )

    body_limit: ClassVar[BodyLimit] = SMALL
    repeated: ClassVar[frozenset[str]] = frozenset()
    """Parameters of a query that may be given several times: they are lists."""

    @model_validator(mode="before")
    @classmethod
    def _stop_at_unknown_key(cls, value: Any) -> Any:
        """Refuse an object that has more keys than fields by one fault, not by one for each unknown key."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) and not cls._takes_any_key():
            known = {field.alias or name for name, field in cls.model_fields.items()}
            unknown = next(key for key in value if key not in known)
            raise ValidationError.from_exception_data(
                cls.__name__, [{"type": "extra_forbidden", "loc": (unknown,), "input": None}]
            )
        return value

    def given(self, names: Set[str]) -> dict[str, Any]:
        """Return the members among `names` that were given, in plain values; mostly there are none."""
        given = self.model_fields_set & names
        return self.model_dump(include=given, exclude_unset=True) if given else {}

    @classmethod
    def _takes_any_key(cls) -> bool:
        return cls.model_config.get("extra") != "forbid"


class LenientQuery(Schema):
    """A query that may have unknown parameters: OpenStack Nova ignores them, and its clients send some."""

    model_config = ConfigDict(extra="ignore")


def refusal(code: str, message: str) -> PydanticCustomError:
    """Return the error that a validator raises; pydantic adds the field."""
    return PydanticCustomError(code, "{message}", {"message": message})


def _limits(info: ValidationInfo) -> Limits:
    return info.context if isinstance(info.context, Limits) else Limits()


def _within_request(value: int, info: ValidationInfo) -> int:
    limit = _limits(info).max_instances
    if value > limit:
        raise refusal("out_of_range", f"must be from 1 to {limit}")
    return value


def _no_longer_than_a_call(items: list[Any], info: ValidationInfo) -> list[Any]:
    limit = _limits(info).max_builds
    if len(items) > limit:
        raise refusal("too_long", f"must have at most {limit} items")
    return items


def _free_json(value: dict[str, Any]) -> dict[str, Any]:
    # As zones and agents may send it: in UTF-8, without spaces.
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > FREE_JSON_BYTES:
        raise refusal("too_long", f"must be at most {FREE_JSON_BYTES} bytes of JSON")
    return value


def _small(texts: dict[str, str]) -> dict[str, str]:
    if are_too_large(texts):
        raise refusal("too_long", f"must be at most {MAX_TEXTS_BYTES} bytes of names and texts")
    return texts


def _extra_specs(specs: dict[str, str]) -> dict[str, str]:
    for key, value in specs.items():
        name = resource_class_in(key)
        if name is not None and not re.match(CLASS_NAME, name):
            raise refusal("invalid_value", f"{key} must name a resource class such as CUSTOM_GPU")
        if name is not None and not _is_amount(value):
            raise refusal("invalid_value", f"{key} must be a whole number from 0 to {MAX_INT}")
        if trait_in(key) is not None and value not in ("required", "forbidden"):
            raise refusal("invalid_value", f"{key} must be required or forbidden")
    fault = fault_of_group_policy(specs)
    if fault:
        raise refusal("invalid_value", f"{GROUP_POLICY} {fault}")
    return specs


def _part_of_path(text: str) -> str:
    # A client takes `..` for the path above, and `DELETE /servers/{id}/tags/..` for the end of the server.
    if "/" in text or text in (".", ".."):
        raise refusal("invalid_value", "must have no slash, and be neither . nor ..")
    return text


def _unpadded(text: str) -> str:
    # A list of names hides spaces around one, and who types it without them does not find it.
    if text != text.strip():
        raise refusal("invalid_value", "must not be blank, nor begin or end with a space")
    return text


def _no_colon(text: str) -> str:
    if ":" in text:
        raise refusal("invalid_value", "must be an availability zone's name, without colon")
    return text


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_INT


def upper(value: object) -> object:
    """Read a name whose case does not matter."""
    return value.upper() if isinstance(value, str) else value


def _digits(text: object) -> object:
    is_number = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 10
    return int(text) if is_number and isinstance(text, str) else text


def _whole(text: object) -> object:
    return int(text) if isinstance(text, str) and re.fullmatch("-?[0-9]{1,18}", text) else text


_TRUTH: Mapping[str, bool] = {
    **dict.fromkeys(("", "1", "t", "true", "y", "yes", "on"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no", "off"), False),
}
"""OpenStack's spellings, and nothing."""


def _seconds(text: object) -> object:
    number = decimal_number(text) if isinstance(text, str) else text
    if number is None:
        raise refusal("invalid_value", "must be a number of seconds")
    return number


def _spelled_truth(value: object) -> object:
    return truth(value) if value else value


def _spelled_id(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _spelled_value(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def truth(text: object) -> object:
    """Read a truth in any of OpenStack's spellings; what is none comes back as it is."""
    return _TRUTH.get(text.lower(), text) if isinstance(text, str) else text


Name = Annotated[str, Field(min_length=1, max_length=255, pattern=PRINTABLE)]
Text = Annotated[str, Field(max_length=255, pattern=PRINTABLE)]
UNPADDED = AfterValidator(_unpadded)
"""Marks a name with no spaces around it."""
GivenName = Annotated[Name, UNPADDED]
"""The name that a person gives to something."""
Uuid = Annotated[str, Field(pattern=UUID)]
SpelledUuid = Annotated[str, Field(pattern=SPELLED_UUID)]
"""A uuid of another service, in upper or lower case, with hyphens or without; kept as it came."""
ItemId = Annotated[str, Field(pattern=ITEM_ID)]
FilterName = Annotated[str, Field(pattern=FILTER_NAME)]
ResourceClass = Annotated[str, Field(pattern=CLASS_NAME)]
Trait = Annotated[str, Field(pattern=TRAIT)]
ReasonCode = Annotated[str, Field(pattern=REASON_CODE)]
Amount = Annotated[int, Field(ge=0, le=MAX_INT)]
Generation = Annotated[int, Field(ge=0, lt=MAX_INT)]
"""A generation, the same for who tells it and who reports it: a report is never refused for what was told."""
Finite = Annotated[float, Field(allow_inf_nan=False)]

InstanceCount = Annotated[int, Field(ge=1, le=MAX_INSTANCES), AfterValidator(_within_request)]
"""1 up to the zone's max_instances_per_request."""
ParentsCount = Annotated[int, Field(ge=1, le=MAX_INSTANCES)]
"""A count of instances of a parent's user, whose limit is that of the parent's zone."""
PerBuild = AfterValidator(_no_longer_than_a_call)
"""Marks a list that has an item for each build of a parent."""
FirstFault = FailFast()
"""Marks a list whose validation ends at its first wrong item."""

ZoneText = Annotated[Text, AfterValidator(_no_colon), UNPADDED]
"""An availability zone, or nothing; no colon, which OpenStack's clients read as zone:host."""
ZoneName = Annotated[Name, AfterValidator(_no_colon), UNPADDED]
"""The same, and not nothing."""

PART_OF_PATH = AfterValidator(_part_of_path)
"""Marks a text by which a URL names an item."""
ProjectId = Annotated[Text, PART_OF_PATH]
Key = Annotated[Name, PART_OF_PATH]
"""The key of an item that a URL names."""

TextMap = Annotated[dict[Name, Text], Field(max_length=MAX_ITEMS)]
KeptName = Annotated[str, Field(min_length=1, max_length=255, pattern=KEPT)]
KeptText = Annotated[str, Field(max_length=255, pattern=KEPT)]
KeptMap = Annotated[dict[KeptName, KeptText], Field(max_length=MAX_ITEMS), AfterValidator(_small)]
Metadata = Annotated[dict[Key, Text], Field(max_length=MAX_ITEMS)]
"""Metadata of servers and images."""
KeptSpecs = Annotated[KeptMap, AfterValidator(_extra_specs)]
SpecValue = Annotated[Text, BeforeValidator(_spelled_value, json_schema_input_type=Text | float)]
"""The value of an extra spec, which OpenStack's clients send as a number, too."""
SpelledSpecs = Annotated[dict[Key, SpecValue], Field(max_length=MAX_ITEMS), AfterValidator(_extra_specs)]
"""Extra specs, likewise."""
FreeJson = Annotated[dict[str, Any], AfterValidator(_free_json)]
"""Any JSON object of at most 64 KiB."""

QueryInt = Annotated[int, BeforeValidator(_whole, json_schema_input_type=int)]
"""An integer of a query string: ASCII digits, with a sign or not."""
LONGEST_PAGE = 1000
PageLimit = Annotated[
    QueryInt, Field(ge=0, le=MAX_INT), AfterValidator(lambda asked: min(asked, LONGEST_PAGE))
]
"""The most items of a page that a query asks for; a page has no more than `LONGEST_PAGE`.

0 is an empty page without a next one, as in OpenStack Nova.
"""
WHOLE = MAX_INT
WholeOrPage = Annotated[
    QueryInt, Field(ge=0, le=MAX_INT), AfterValidator(lambda asked: min(asked, LONGEST_PAGE) or WHOLE)
]
"""The same of a list that has no pages in OpenStack Nova: without it, and with 0, all."""
Digits = Annotated[str, Field(pattern="^[0-9]{1,10}$")]
IntOrDigits = Annotated[int, BeforeValidator(_digits, json_schema_input_type=int | Digits)]
"""An integer of a body that OpenStack's clients send as a text."""
SpelledAmount = Annotated[Amount, BeforeValidator(_digits, json_schema_input_type=int | Digits)]
"""An amount, likewise."""
SpelledCount = Annotated[InstanceCount, BeforeValidator(_digits, json_schema_input_type=int | Digits)]
"""A count of instances, likewise."""
SpelledBool = Annotated[bool, BeforeValidator(_spelled_truth, json_schema_input_type=bool | str)]
"""A truth of a body that OpenStack's clients send as a text: as in a query, but not an empty one."""
FlavorRef = Annotated[Name, BeforeValidator(_spelled_id, json_schema_input_type=str | int)]
"""A flavor's id, name or link; OpenStack's clients send ids of digits as numbers, too."""
SpelledItemId = Annotated[ItemId, BeforeValidator(_spelled_id, json_schema_input_type=str | int)]
"""An id, likewise."""
Seconds = Annotated[
    float, Field(gt=0, le=MAX_BUDGET_S), BeforeValidator(_seconds, json_schema_input_type=float)
]
"""Duration in a query, such as the time that a parent waits."""
QueryBool = Annotated[bool, BeforeValidator(truth, json_schema_input_type=bool)]
"""A truth of a query string: 1, t, true, y, yes, on or nothing; 0, f, false, n, no, off."""
