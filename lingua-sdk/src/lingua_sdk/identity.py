"""Who a node is after it has joined: a key pair of its own, and the credential that the scheduler made for it.

It is kept in a file that only its user can read, and the private key never leaves it."""

import os
import re
import secrets
import time
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_sdk.address import origin_of
from lingua_sdk.domain.vocabulary import MAX_NODE_TOKEN_S, NODE_TOKEN
from lingua_sdk.private_files import write_private

try:
    import jwt
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
except ImportError as error:
    raise ImportError("the identity of a node needs an extra: pip install 'lingua-sdk[identity]'") from error

_Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_OTHERS = 0o077
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z.-]+")


class BadIdentity(Exception):
    """The file of an identity cannot be used; the message says what to do."""


class KeyPair:
    """Of one node at one scheduler."""

    def __init__(self, private_key: str = "") -> None:
        seed = bytes.fromhex(private_key) if private_key else secrets.token_bytes(32)
        self.key = Ed25519PrivateKey.from_private_bytes(seed)

    @property
    def private_text(self) -> str:
        return self.key.private_bytes_raw().hex()

    @property
    def public_text(self) -> str:
        return self.key.public_key().public_bytes_raw().hex()


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """To be given to a Node as its token: it signs another one for each connect."""

    # Of the scheduler, such as https://host:443.
    origin: str
    node_id: str
    credential_id: str
    audience: str
    private_key: _Hex
    # Of the enrolment key that it joined with.
    enrolled_with: str = ""

    def __repr__(self) -> str:
        return f"NodeIdentity({self.node_id!r} at {self.origin!r})"

    async def __call__(self) -> str:
        return self.signed(time.time())

    def signed(self, now_s: float) -> str:
        """A token that is valid for a minute, and once."""
        claims = {
            "iss": self.credential_id,
            "aud": self.audience,
            "iat": int(now_s),
            "exp": int(now_s) + MAX_NODE_TOKEN_S,
            "jti": secrets.token_urlsafe(18),
        }
        headers = {"kid": self.credential_id, "typ": NODE_TOKEN}
        return jwt.encode(claims, KeyPair(self.private_key).key, "EdDSA", headers=headers)


def state_dir(environment: "os._Environ[str] | dict[str, str]" = os.environ) -> Path:
    """Raises BadIdentity if no home directory is known."""
    home = environment.get("XDG_STATE_HOME", "")
    try:
        # The XDG specification says to ignore a relative path.
        folder = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    except RuntimeError:
        raise BadIdentity("no home directory is known; set XDG_STATE_HOME to an absolute path") from None
    return folder / "lingua" / "node"


def identity_path(folder: Path, address: str, wished_id: str = "") -> Path:
    """One for each scheduler, and for each node that was given an id. Raises BadAddress."""
    names = (origin_of(address), wished_id) if wished_id else (origin_of(address),)
    return folder / f"{'@'.join(_NOT_IN_NAMES.sub('_', name) for name in names)}.json"


def read_identity(path: Path, address: str) -> NodeIdentity | None:
    """None if the node has not joined. Raises BadIdentity, BadAddress."""
    try:
        with path.open("rb") as file:
            # Windows has access lists instead, and its home folders are of one user.
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise BadIdentity(f"other users can read the key of this node; run chmod 600 {path}")
            found = msgspec.json.decode(file.read(), type=NodeIdentity)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadIdentity(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        # What the parser says may quote the key.
        raise BadIdentity(f"{path} is damaged; remove it and join again") from None
    if found.origin != origin_of(address):
        raise BadIdentity(f"{path} is for another scheduler, {found.origin}; remove it and join again")
    return found


def write_identity(path: Path, identity: NodeIdentity) -> None:
    """In one step: a crash leaves the file of before. No other user can read it. Raises BadIdentity."""
    try:
        write_private(path, msgspec.json.encode(identity))
    except OSError as error:
        raise BadIdentity(f"{path} cannot be written: {error.strerror}; set XDG_STATE_HOME to another folder") from None
