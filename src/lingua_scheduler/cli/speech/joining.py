"""`lingua node --join`: joins with a string of an operator, and is the same node at each later start."""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import click

from lingua_scheduler.cli.credentials import shown_to
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import asked
from lingua_scheduler.cli.speech.tls_options import given_tls
from lingua_scheduler.cli.wording import plain, stamp
from lingua_sdk.access import KEY_FILE_VARIABLE, KEY_VARIABLE, AccessDenied, Token
from lingua_sdk.address import BadAddress, origin_of
from lingua_sdk.identity import BadIdentity, NodeIdentity, identity_path, read_identity, state_dir
from lingua_sdk.joining import MAX_CHARS, PREFIX, BadJoinString, JoinString, join
from lingua_sdk.protocol.enrolment import Enrolled
from lingua_sdk.tls import ClientTls
from lingua_sdk.trouble import Failures, trouble_of

JOIN_VARIABLE = "LINGUA_JOIN"


class NodePlace(NamedTuple):
    """Where a node connects, as whom, and with what."""

    url: str
    node_id: str | None
    token: Token
    tls: ClientTls | None = None

    @property
    def advice(self) -> str:
        """What helps a node that is refused; empty if it has not joined, and uses a key."""
        if not isinstance(self.token, NodeIdentity):
            return ""
        return (
            "this node may have been banned, or its clock is wrong; to join again, use a new lingua node --join STRING"
        )


def place_of_node(joining: str | None, url: str, node_id: str | None, *, is_url_given: bool) -> NodePlace:
    """With a join string, after joining. Without, as it joined before, or with the key of the user. A certificate of
    its own is its only credential."""
    tls = given_tls()
    if tls is not None and tls.has_certificate:
        if joining is not None:
            fail("--join and --cert exclude each other: a node has one credential; leave one out", Exit.SETTINGS)
        return NodePlace(url, node_id, "", tls)
    found = _place(joining, url, node_id, tls, is_url_given=is_url_given)
    return found._replace(tls=tls)


def _place(
    joining: str | None, url: str, node_id: str | None, tls: ClientTls | None, *, is_url_given: bool
) -> NodePlace:
    try:
        if joining is not None:
            return _joined(_read(joining, url), url if is_url_given else "", node_id, tls)
        if os.environ.get(KEY_VARIABLE) is not None or os.environ.get(KEY_FILE_VARIABLE):
            return NodePlace(url, node_id, shown_to(url))
        known = read_identity(identity_path(state_dir(), url, node_id or ""), url)
    except (BadIdentity, BadAddress, BadJoinString) as error:
        fail(str(error), Exit.SETTINGS)
    return NodePlace(url, node_id, shown_to(url)) if known is None else NodePlace(url, known.node_id, known)


def _read(text: str, url: str) -> JoinString:
    """The string itself, or the name of a file that has it: arguments can be seen by other users of a machine."""
    if not text.startswith((PREFIX, "lk_")):
        try:
            with Path(text).expanduser().open(encoding="ascii") as file:
                text = file.read(MAX_CHARS)
        except FileNotFoundError:
            pass  # then it is a broken string, and that is what to say
        except (OSError, RuntimeError, UnicodeDecodeError):
            raise BadJoinString(f"the file of --join cannot be read: {text[:64]!r}") from None
    return JoinString.parse(text, url)


def _joined(joining: JoinString, url: str, node_id: str | None, tls: ClientTls | None) -> NodePlace:
    if url and origin_of(url) != origin_of(joining.address):
        raise BadJoinString(f"the join string is for {joining.address}, and --url says {url}; leave --url out")
    path = identity_path(state_dir(), joining.address, node_id or "")
    known = read_identity(path, joining.address)

    def ask() -> tuple[NodeIdentity, Enrolled] | str:
        """Why not, in words, if it may or must do without."""
        try:
            return asyncio.run(join(joining, path, node_id or "", tls))
        except AccessDenied as error:
            return f"{error.code}: {error.detail}"
        except Failures as error:
            if known is None:
                raise
            return trouble_of(error).reason

    found = asked(joining.address, ask)
    if not isinstance(found, str):
        identity, answer = found
        _say(f"joined {joining.address} as {plain(identity.node_id)}; the key of this node is in {path}")
        if not answer.is_approved:
            _say(f"it gets no jobs before an operator approves it: lingua nodes approve {plain(identity.node_id)}")
        return NodePlace(joining.address, identity.node_id, identity)
    if known is None:
        fail(f"the scheduler at {joining.address} does not let this node join ({found})", Exit.NOT_ALLOWED)
    # The string may have been good for one join, and this node is the one that joined.
    _say(f"this node joined before, as {plain(known.node_id)}, and goes on as that ({plain(found)})")
    return NodePlace(joining.address, known.node_id, known)


def _say(words: str) -> None:
    click.echo(f"{stamp()} {words}", err=True)
