"""How a node joins a scheduler: one string has the address and the enrolment key, and is used once."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import NamedTuple

import msgspec

from lingua_sdk.address import origin_of, socket_url
from lingua_sdk.domain.key_texts import BadKey, KeyKind, KeyText, looks_like_a_key
from lingua_sdk.http import Unreadable, post
from lingua_sdk.identity import KeyPair, NodeIdentity, read_identity, write_identity
from lingua_sdk.protocol.enrolment import Enrolled, EnrolRequest
from lingua_sdk.tls import ClientTls

# The rest is base64url of the address, a space and the key: no shell, URL or file of settings changes such a string.
PREFIX = "lingua-join_"
MAX_CHARS = 4096
PATH = "/v1/nodes/enrol"


class BadJoinString(ValueError):
    """The message says what is wrong, without the key."""


class JoinString(NamedTuple):
    address: str
    key: KeyText

    def __repr__(self) -> str:
        return f"JoinString({self.address!r}, {self.key.id})"

    def __str__(self) -> str:
        return PREFIX + urlsafe_b64encode(f"{self.address} {self.key}".encode()).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str, address: str = "") -> "JoinString":
        """A string of `lingua keys create --kind enrol`. A bare enrolment key goes with an address. Raises
        BadJoinString, BadAddress."""
        text = text.strip()
        if looks_like_a_key(text):
            if not address:
                raise BadJoinString("an enrolment key alone needs the address of the scheduler")
            key_text = text
        else:
            address, key_text = _unpacked(text)
        try:
            key = KeyText.parse(key_text)
        except BadKey as error:
            raise BadJoinString(f"the enrolment key is wrong: {error}") from None
        if key.kind is not KeyKind.ENROLMENT:
            raise BadJoinString("that is not an enrolment key; make one with: lingua keys create --kind enrol")
        socket_url(address, "")
        return cls(address, key)


async def join(
    joining: JoinString, path: Path, node_id: str = "", tls: ClientTls | None = None
) -> tuple[NodeIdentity, Enrolled]:
    """Ask for a credential, and keep it in the file. Safe to repeat: with the same file it gets the same one.

    Raises AccessDenied, Refused, BadIdentity, or one of Failures.
    """
    known = read_identity(path, joining.address)
    pair = KeyPair(known.private_key if known is not None else "")
    wish = EnrolRequest(public_key=pair.public_text, node_id=node_id or None)
    said = await post(joining.address, PATH, msgspec.json.encode(wish), str(joining.key), tls)
    try:
        answer = msgspec.json.decode(said, type=Enrolled)
    except msgspec.DecodeError:
        raise Unreadable("it is not a scheduler, or an older one") from None
    identity = NodeIdentity(
        origin=origin_of(joining.address),
        node_id=answer.node_id,
        credential_id=answer.credential_id,
        audience=answer.audience,
        private_key=pair.private_text,
        enrolled_with=joining.key.id,
    )
    write_identity(path, identity)
    return identity, answer


def _unpacked(text: str) -> tuple[str, str]:
    if not text.startswith(PREFIX) or len(text) > MAX_CHARS:
        raise BadJoinString(
            f"not a join string: it begins with {PREFIX} and comes from lingua keys create --kind enrol"
        )
    packed = text.removeprefix(PREFIX)
    try:
        address, _, key = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode().rpartition(" ")
    except ValueError:
        raise BadJoinString("the join string is cut off or has a typing error; copy it again") from None
    if not address:
        raise BadJoinString("the join string is cut off or has a typing error; copy it again")
    return address, key
