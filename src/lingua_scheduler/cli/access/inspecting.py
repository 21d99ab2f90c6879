"""`lingua token inspect`: what a token says, and what a scheduler says of it. Its signature is never shown."""

import asyncio
import json
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import unreachable, url_option
from lingua_scheduler.cli.wording import clock, now_ms, plain
from lingua_scheduler.domain.access.claims import (
    BadToken,
    Claims,
    ExpiredToken,
    check_claims,
    check_shape,
    from_base64,
    read_header,
)
from lingua_scheduler.protocol.http_access import WhoAmI
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_sdk.access import AccessDenied
from lingua_sdk.address import BadAddress
from lingua_sdk.domain.key_texts import looks_like_a_key
from lingua_sdk.domain.vocabulary import MAX_TOKEN_CHARS
from lingua_sdk.http import get
from lingua_sdk.trouble import Failures, trouble_of

_OWN_ISSUER = "lingua"


class TokenText(NamedTuple):
    """A token, and what can be read of it without a key."""

    text: str
    header: dict[str, Any]
    claims: dict[str, Any]

    def __repr__(self) -> str:
        return "TokenText()"


class Verdict(NamedTuple):
    """`word` is valid, expired, refused or unchecked; `by` says who judged."""

    word: str
    reason: str
    by: str


@click.command()
@click.option("--token-file", type=click.Path(dir_okay=False), help="Read the token from a file.")
@click.option("--offline", is_flag=True, help="Do not ask the scheduler: the signature is not checked.")
@click.option("--audience", default="lingua", show_default=True, help="The scheduler's auth.audience.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def inspect(token_file: str | None, offline: bool, audience: str, url: str, as_json: bool) -> None:
    """Show what a token says, and whether the scheduler accepts it.

    The token is read from standard input or a file; it is never an argument, because other users of this machine can
    see those. Its signature is never shown. The scheduler at --url is asked whether it accepts the token; if none
    answers, the claims are judged by its rules. Exit code 1 if it is not accepted.

    \b
    lingua token inspect < token.txt
    lingua token inspect --token-file token.txt --offline
    lingua token inspect --json < token.txt | jq .claims.exp
    """
    token = read_token(token_file)
    verdict = _judged(token, audience, now_ms())
    if not offline:
        verdict = _asked(url, token, verdict)
    if as_json:
        told = {"header": token.header, "claims": token.claims} | verdict._asdict()
        click.echo(json.dumps(told))
    else:
        for name, words in _rows(token, verdict):
            click.echo(textwrap.fill(words, 80, initial_indent=f"{name:10} ", subsequent_indent=" " * 11))
    if verdict.word in ("expired", "refused"):
        raise SystemExit(Exit.FOUND)


def read_token(path: str | None) -> TokenText:
    """From the file or standard input; a person is asked, and does not see it. Ends the command if it is no token."""
    text = _entered(path)
    if looks_like_a_key(text):
        fail("that is a key, not a token; lingua keys check looks at those", Exit.SETTINGS)
    try:
        header_part, claims_part = check_shape(text)
        header, claims = json.loads(from_base64(header_part)), json.loads(from_base64(claims_part))
    except (BadToken, ValueError, RecursionError):
        header = claims = None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        fail("that is not a token (JWT): three parts of letters, digits, - and _, with dots between", Exit.SETTINGS)
    return TokenText(text, header, claims)


def written_by(token: TokenText, key_id: str | None) -> tuple[str, str]:
    """The id of a token, and of the key or issuer that made it, as revocations name them."""
    token_id = token.claims.get("jti")
    if not isinstance(token_id, str) or not token_id:
        fail("the token has no id (jti), so it cannot be revoked alone; revoke its user or its key", Exit.SETTINGS)
    signer = token.claims.get("azp", "") if token.claims.get("iss") == _OWN_ISSUER else token.header.get("kid", "")
    return token_id, key_id if key_id is not None else str(signer)


def _entered(path: str | None) -> str:
    most = MAX_TOKEN_CHARS + 2
    try:
        if path is not None:
            with Path(path).expanduser().open("rb") as file:
                return file.read(most).decode().strip()
        if sys.stdin.isatty():
            return str(click.prompt("token", hide_input=True, err=True)).strip()
        return sys.stdin.read(most).strip()
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}", Exit.SETTINGS)
    except ValueError:  # not UTF-8
        return ""


def _judged(token: TokenText, audience: str, at_ms: int) -> Verdict:
    """What can be said without the signature, by the rules of the scheduler."""
    by = "its claims"
    try:
        read_header(token.text.split(".")[0])
        claims = msgspec.convert(token.claims, Claims, strict=True)
        check_claims(claims, audience, AuthSettings().max_token_ms, at_ms)
    except msgspec.ValidationError as error:
        return Verdict("refused", str(error), by)
    except ExpiredToken:
        return Verdict("expired", "the token has expired", by)
    except BadToken as error:
        return Verdict("refused", str(error), by)
    return Verdict("unchecked", "the signature was not checked", by)


def _asked(url: str, token: TokenText, judged: Verdict) -> Verdict:
    """A scheduler does not say why it refuses a token; what can be seen in the claims is the likely reason."""
    by = f"the scheduler at {url}"
    try:
        found = msgspec.json.decode(asyncio.run(get(url, "/v1/whoami", token.text)), type=WhoAmI)
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    except AccessDenied as denied:
        word = "expired" if denied.code == "TOKEN_EXPIRED" else "refused"
        likely = f"; {judged.reason}" if word == judged.word == "refused" else ""
        return Verdict(word, f"{denied.code}: {denied.detail}{likely}", by)
    except msgspec.DecodeError:
        return judged._replace(reason=f"{judged.reason}; the server at {url} is not a scheduler")
    except Failures as error:
        return judged._replace(reason=f"{judged.reason}; {unreachable(url, trouble_of(error))}")
    return Verdict("valid", f"it may {' '.join(found.scopes)}", by)


def _rows(token: TokenText, verdict: Verdict) -> list[tuple[str, str]]:
    claims, header, at_ms = token.claims, token.header, now_ms()
    grants = claims.get("lingua")
    limits = grants if isinstance(grants, dict) else {}
    rows = [
        ("token", claims.get("jti") or "without an id (jti)"),
        ("user", claims.get("sub", "")),
        ("tenant", limits.get("tenant", "")),
        ("grants", limits.get("grants", ["session"])),
        ("room", _room(limits.get("room"))),
        ("pairs", limits.get("pairs") or "all"),
        ("sessions", limits.get("max_sessions") or "any number"),
        ("audience", claims.get("aud", "")),
        ("issuer", claims.get("iss", "")),
        ("signed by", f"{header.get('kid', '')} {header.get('alg', '')}"),
        ("made by", claims.get("azp", "")),
        ("issued", _time(claims.get("iat"), at_ms)),
        ("expires", _time(claims.get("exp"), at_ms)),
        ("verdict", verdict.word),
        ("because", verdict.reason),
        ("says", verdict.by),
    ]
    return [(name, words) for name, value in rows if (words := plain(_words(value)))]


def _room(limit: Any) -> str:
    """The room that it is for; empty if it names none."""
    return f"{limit.get('code', '')} as {limit.get('role', 'speaker')}" if isinstance(limit, dict) else ""


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _time(seconds: Any, at_ms: int) -> str:
    is_time = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < 10**11
    return clock(int(seconds * 1000), at_ms) if is_time else ""
