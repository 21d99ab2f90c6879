"""`lingua login`, `lingua logout` and `lingua whoami`"""

import asyncio
from urllib.parse import urlsplit

import click
import msgspec

from lingua_scheduler.cli.credentials import (
    credentials_path,
    entered_key,
    place_of,
    read_credentials,
    shown_to,
    source_of,
    write_credentials,
)
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import asked, url_option
from lingua_scheduler.cli.wording import clock, now_ms, plain
from lingua_scheduler.domain.guards.addresses import read_address
from lingua_scheduler.protocol.http_access import WhoAmI
from lingua_sdk.access import KEY_FILE_VARIABLE, KEY_VARIABLE, AccessDenied, Token
from lingua_sdk.address import BadAddress
from lingua_sdk.domain.key_texts import BadKey, KeyText, looks_like_a_key
from lingua_sdk.http import get


@click.command()
@url_option
def login(url: str) -> None:
    """Store the key for a scheduler, after checking it there.

    The key is asked for without showing it, or read from standard input; it is never an argument, because other users
    of this machine can see those. It is kept in ~/.config/lingua/credentials.toml, which only you can read, and used by
    all commands with this URL. LINGUA_KEY and LINGUA_KEY_FILE come first.

    \b
    lingua login --url wss://translate.example.com
    lingua login --url wss://translate.example.com < key.txt
    """
    place = _place(url)
    _warn_of_plain_http(url)
    key = _read_key(url)
    found = _whoami(url, key, "the key was not stored; lingua keys check finds typing errors")
    _change(place, key)
    click.echo(f"logged in to {place} as {_described(found)}")
    if source_of(url) != str(credentials_path()):
        click.echo(f"lingua: {source_of(url) or KEY_VARIABLE} comes first, so the key is not used now", err=True)


@click.command()
@url_option
@click.option("--all", "everywhere", is_flag=True, help="Forget the keys of all schedulers.")
def logout(url: str, everywhere: bool) -> None:
    """Forget the key for a scheduler.

    The key itself stays valid: lingua keys revoke ends it.

    \b
    lingua logout --url wss://translate.example.com
    lingua logout --all
    """
    place = _place(url)
    known = _known()
    gone = list(known) if everywhere else [place] if place in known else []
    if not gone:
        click.echo(f"there is no key {'at all' if everywhere else f'for {place}'}")
        return
    for one in gone:
        _change(one, None)
        click.echo(f"forgot the key for {one}")


@click.command()
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def whoami(url: str, as_json: bool) -> None:
    """Show who you are to a scheduler, and what you may do.

    \b
    lingua whoami
    lingua whoami --url wss://translate.example.com --json | jq '.scopes'
    """
    place = _place(url)
    found = _whoami(url, shown_to(url))
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    key = f"{plain(found.key_id)}, from {source_of(url)}" if found.key_id else "none"
    expires = clock(found.expires_ms, now_ms()) if found.expires_ms else "never"
    for name, value in (
        ("scheduler", place),
        ("you are", _described(found)),
        ("key", key),
        ("expires", expires),
        ("may", plain(" ".join(found.scopes)) or "nothing"),
    ):
        click.echo(f"{name:10} {value}")


def _place(url: str) -> str:
    try:
        return place_of(url)
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)


def _read_key(url: str) -> str:
    if urlsplit(url).username is not None:
        fail("the URL has a name and a password; leave them out, or the key cannot be sent", Exit.SETTINGS)
    key = entered_key()
    if looks_like_a_key(key):
        try:
            KeyText.parse(key)
        except BadKey as error:
            fail(f"{error}; copy it again", Exit.SETTINGS)
    if not key:
        fail("no key was given; make one with: lingua keys create --admin", Exit.SETTINGS)
    return key


def _warn_of_plain_http(url: str) -> None:
    host = urlsplit(place_of(url))
    address = read_address(host.hostname or "")
    is_here = host.hostname == "localhost" or (address is not None and address.is_loopback)
    if host.scheme == "http" and not is_here:
        words = "the key crosses the network unencrypted; use wss:// or https:// where you can"
        click.secho(f"lingua: warning: {words}", fg="yellow", err=True)


def _whoami(url: str, token: Token, advice: str = "") -> WhoAmI:
    def ask() -> bytes:
        try:
            return asyncio.run(get(url, "/v1/whoami", token))
        except AccessDenied as error:
            if not advice:
                raise
            fail(f"the scheduler at {url} refused ({error.code}: {error.detail}); {advice}", Exit.NOT_ALLOWED)

    try:
        return msgspec.json.decode(asked(url, ask), type=WhoAmI)
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)


def _described(found: WhoAmI) -> str:
    role = f" with the role {found.role}" if found.role else ""
    tenant = "all tenants" if found.tenant == "*" else f"tenant {found.tenant}"
    subject = f", user {found.subject}" if found.subject else ""
    return plain(f"{found.kind}{role} of {tenant}{subject}")


def _known() -> dict[str, str]:
    try:
        return read_credentials()
    except AccessDenied as error:
        fail(f"{error.detail}; {error.advice}", Exit.SETTINGS)


def _change(place: str, key: str | None) -> None:
    known = _known()
    known.pop(place, None)
    try:
        write_credentials(known if key is None else known | {place: key})
    except OSError as error:
        fail(
            f"{credentials_path()} cannot be written: {error.strerror}; use {KEY_VARIABLE} or {KEY_FILE_VARIABLE}",
            Exit.SETTINGS,
        )
