"""`lingua token`"""

import json
import sys
from typing import Any

import click
import msgspec

from lingua_scheduler.cli.access.inspecting import inspect, read_token, written_by
from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, duration_ms, fail
from lingua_scheduler.cli.scheduler_access import posted, url_option
from lingua_scheduler.cli.wording import clock, now_ms, plain
from lingua_scheduler.domain.rooms.rooms import is_code, without_space
from lingua_scheduler.protocol.http_keys import RevocationWish, Revoked, TokenCreated, TokenWish


@click.group(cls=Group)
def token() -> None:
    """Create, inspect and revoke tokens for users of an app.

    These commands ask the scheduler with your key (lingua login, LINGUA_KEY or LINGUA_KEY_FILE). Neither a key nor a
    token is ever an argument, because other users of this machine can see those.

    \b
    lingua token create --sub user-7
    lingua token inspect < token.txt
    lingua token revoke < token.txt
    """


@token.command()
@click.option("--sub", "subject", required=True, metavar="NAME", help="Your name for the user; never shown to others.")
@click.option("--tenant", metavar="NAME", help="Tenant of the user.  [default: that of your key]")
@click.option(
    "--ttl", "ttl_ms", metavar="TIME", default="15m", show_default=True, callback=duration_ms, help="Valid for so long."
)
@click.option(
    "--grant",
    "grants",
    type=click.Choice(["session", "dispatch", "room"]),
    multiple=True,
    default=("session",),
    show_default=True,
    help="session = WebSocket, dispatch = HTTP, room = rooms, which includes session; repeatable.",
)
@click.option("--room", "code", metavar="CODE", help="May join this room, and no other one; includes --grant room.")
@click.option("--listen", is_flag=True, help="With --room: as a guest, who listens and reads.")
@click.option("--pair", "pairs", multiple=True, metavar="PAIR", help="Only zh:en or '*:fr' …; repeatable.")
@click.option("--max-sessions", type=click.IntRange(0, 1_000_000), default=0, help="Sessions at the same time.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def create(url: str, as_json: bool, code: str | None, listen: bool, **wish: Any) -> None:
    """Create a token for one user, and print it.

    It has at most the rights of your key, and ends with it. The token is all there is on standard output. Exit code 8
    if your key may not make it.

    \b
    lingua token create --sub user-7
    lingua token create --sub user-7 --tenant acme --ttl 1h --pair en:pt
    lingua token create --sub robot --grant session --grant dispatch
    lingua token create --sub user-7 --grant room
    lingua token create --sub screen-1 --room 483920 --listen
    lingua token create --sub user-7 --json | jq -r .token_id

    With --grant room the user may open rooms and join any whose code it knows. A token for one room opens none.
    """
    wish["room"] = _room_of(code, listen)
    try:
        wanted = msgspec.convert({name: value for name, value in wish.items() if value is not None}, TokenWish)
    except msgspec.ValidationError as error:
        fail(f"there cannot be such a token: {error}", Exit.SETTINGS)
    answer = posted(url, "/v1/tokens", msgspec.json.encode(wanted))
    made = _read(url, answer, TokenCreated)
    if as_json:
        click.echo(msgspec.json.encode(made))
        return
    if sys.stderr.isatty():
        until = clock(made.expires_ms, now_ms())
        key = f" --key {made.key_id}" if made.key_id else ""
        click.echo(plain(f"token of {made.subject}, tenant {made.tenant}, valid until {until}"), err=True)
        click.echo(plain(f"revoke it with: lingua token revoke {made.token_id}{key}"), err=True)
    click.echo(made.token)


@token.command()
@click.argument("token_id", metavar="[ID]", required=False)
@click.option("--key", "key_id", metavar="ID", help="With ID: the key or issuer that made the token.")
@click.option("--token-file", type=click.Path(dir_okay=False), help="Read the token from a file.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def revoke(token_id: str | None, key_id: str | None, token_file: str | None, url: str, as_json: bool) -> None:
    """Revoke one token now, for good.

    It is named by its id (`jti`) and the key that made it, as lingua token create shows both. Without an ID the token
    itself is read, from standard input or a file. Its connections are closed on all instances within a second. Exit
    code 8 if your key may not.

    \b
    lingua token revoke 6fKnMXhCBsPF8USx --key k3jPq0aZ81Ty
    lingua token revoke < token.txt
    lingua token revoke --token-file token.txt
    """
    if token_id is None:
        token_id, key_id = written_by(read_token(token_file), key_id)
    elif token_file is not None:
        raise click.UsageError("name the ID of the token, or use --token-file; not both")
    elif token_id.count(".") == 2:
        fail("that is a whole token, and other users of this machine can see arguments; pipe it in", Exit.SETTINGS)
    try:
        wanted = msgspec.convert({"token_id": token_id, "key_id": key_id or ""}, RevocationWish)
    except msgspec.ValidationError as error:
        fail(f"there cannot be such a token: {error}", Exit.SETTINGS)
    told = _read(url, posted(url, "/v1/revocations", msgspec.json.encode(wanted)), Revoked)
    if as_json:
        click.echo(json.dumps({"token_id": token_id, "key_id": key_id or "", "before_ms": told.before_ms}))
        return
    click.echo(plain(f"token {token_id} is revoked"))


token.add_command(inspect)


def _room_of(code: str | None, listen: bool) -> dict[str, str] | None:
    if code is None:
        if listen:
            raise click.UsageError("--listen needs --room CODE: a token for listening is for one room")
        return None
    code = without_space(code)
    if not is_code(code):
        raise click.UsageError(f"{code!r} is not the code of a room, which has six digits such as 483920")
    return {"code": code, "role": "listener" if listen else "speaker"}


def _read(url: str, answer: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)
