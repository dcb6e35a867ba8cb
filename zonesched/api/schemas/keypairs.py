"""Bodies and queries of /os-keypairs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from zonesched.api.schemas.fields import (
    KEYPAIR_NAME,
    LONGEST_PAGE,
    PART_OF_PATH,
    UNPADDED,
    LenientQuery,
    PageLimit,
    Schema,
    Text,
)

KeypairName = Annotated[
    str, Field(min_length=1, max_length=255, pattern=KEYPAIR_NAME), PART_OF_PATH, UNPADDED
]


class NewKeypair(Schema):
    """A key pair to import, or to make where no public key is given; `user_id`: an admin names its owner."""

    name: KeypairName
    public_key: Annotated[str, Field(max_length=16_384)] = ""
    type: Literal["ssh"] = "ssh"
    user_id: Text = ""


class KeypairBody(Schema):
    """A key pair to add."""

    keypair: NewKeypair


class KeypairQuery(LenientQuery):
    """The owner of a key pair, where an admin names another user."""

    user_id: Text = ""


class KeypairsQuery(KeypairQuery):
    """The owner and the page of a list of key pairs."""

    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""
