"""`lingua room`"""

import re
from collections.abc import Iterator
from typing import TypeVar

import click
import msgspec
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import got, posted, url_option
from lingua_scheduler.cli.wording import NOTHING, counted, now_ms, plain, short_span, table_console
from lingua_scheduler.domain.rooms.rooms import is_code, without_space
from lingua_scheduler.protocol.http_rooms import LIST_MAX, RoomAbout, RoomDetail, RoomList

# Rooms that are looked through for a code.
MOST_ROOMS = 2_000

T = TypeVar("T")

_ABSENT = "there is no room {}, or it has ended; lingua room list lists them"
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@click.group(cls=Group)
def room() -> None:
    """List rooms, show who is in one, or close one.

    A room is named by its id, or by its code if it is the only one with that code. Names of members, and what they say,
    are never shown. Codes let people in: only callers that may close rooms are shown them.

    \b
    lingua room list
    lingua room members 483920
    """


@room.command("list")
@url_option
@click.option("--limit", type=click.IntRange(1, MOST_ROOMS), default=50, show_default=True, help="Maximum rooms shown.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def list_rooms(url: str, limit: int, as_json: bool) -> None:
    """Show the rooms that have members, newest first.

    "quiet" is the time since a member last joined or spoke; a room that is quiet for rooms.expire_ms ends.

    \b
    lingua room list
    lingua room list --json | jq '.rooms[] | select(.members > 10)'
    """
    rooms, is_all = _rooms(url, limit)
    if as_json:
        click.echo(msgspec.json.encode({"rooms": rooms}))
        return
    if not rooms:
        click.echo("no room is open")
        return
    at_ms = now_ms()
    console = table_console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    # Ids are copied into the next command, so they are never cut.
    table.add_column("room", no_wrap=True)
    for name in ("code", "age", "quiet", "members", "languages"):
        table.add_column(name, overflow="fold")
    for one in rooms:
        table.add_row(
            one.room_id,
            (one.code or NOTHING) + (" locked" if one.is_locked else ""),
            short_span(at_ms - one.opened_at_ms),
            short_span(at_ms - one.active_at_ms),
            _people(one),
            " ".join(f"{plain(language)}:{count}" for language, count in one.languages.items()),
        )
    console.print(table)
    if not is_all:
        console.print(Text("there are more; use --limit", style="dim"))


@room.command()
@click.argument("name", metavar="ROOM")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def members(name: str, url: str, as_json: bool) -> None:
    """Show who is in a room: sessions, languages, roles.

    The host is the first of the speakers who are there.

    \b
    lingua room members 483920
    lingua room members 9b2d6c0e-6f0e-4c55-8b0a-3f0f7a1f0a11 --json
    """
    room_id = _room_id(url, name)
    body = got(url, f"/v1/rooms/{room_id}", absent=_ABSENT.format(room_id))
    if as_json:
        click.echo(body)
        return
    found = _decoded(url, body, RoomDetail)
    at_ms = now_ms()
    console = table_console()
    console.print(Text(f"{found.room.room_id}  open for {short_span(at_ms - found.room.opened_at_ms)}", style="dim"))
    table = Table("session", "role", "speaks", "hears", "for", "at", box=None, pad_edge=False, header_style="dim")
    for one in found.members:
        table.add_row(
            one.session_id,
            one.role,
            plain(one.src_lang) or NOTHING,
            plain(one.language) or NOTHING,
            short_span(at_ms - one.joined_at_ms),
            one.instance_id or NOTHING,
        )
    console.print(table)
    if found.room.guests:
        console.print(counted(found.room.guests, "guest"))


@room.command()
@click.argument("name", metavar="ROOM")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def close(name: str, url: str, as_json: bool) -> None:
    """Close a room: everyone leaves it.

    Their pages say that an operator closed the room; their sessions go on. It is noted in the audit log.

    \b
    lingua room close 483920
    """
    room_id = _room_id(url, name)
    answer = posted(url, f"/v1/rooms/{room_id}/close", b"", absent=_ABSENT.format(room_id))
    click.echo(answer if as_json else f"room {room_id} is closed")


def _people(one: RoomAbout) -> str:
    return f"{one.members}+{counted(one.guests, 'guest')}" if one.guests else str(one.members)


def _pages(url: str, limit: int) -> Iterator[RoomList]:
    before = -1
    while before:
        query = f"?limit={min(limit, LIST_MAX)}" + (f"&before={before}" if before > 0 else "")
        page = _decoded(url, got(url, f"/v1/rooms{query}"), RoomList)
        yield page
        before = page.next_before


def _rooms(url: str, limit: int) -> tuple[list[RoomAbout], bool]:
    """As many as are wanted, and whether these are all."""
    found: list[RoomAbout] = []
    for page in _pages(url, limit):
        found += page.rooms
        if len(found) >= limit:
            return found[:limit], len(found) == limit and not page.next_before
    return found, True


def _room_id(url: str, name: str) -> str:
    """A code stands for its room, if the caller may see codes and one room has it."""
    name = without_space(name)
    if not is_code(name):
        if _ID.fullmatch(name) is None:
            fail(
                f"{name!r} is neither the code of a room (six digits, such as 483920) nor its id; lingua room list"
                " lists both",
                Exit.SETTINGS,
            )
        return name.lower()
    rooms, _ = _rooms(url, MOST_ROOMS)
    ids = [one.room_id for one in rooms if one.code == name]
    if not ids:
        fail(f"no room with the code {name} is shown to you; lingua room list lists them by id", Exit.SETTINGS)
    if len(ids) > 1:
        fail(f"{name} is the code of rooms of several tenants: {', '.join(ids[:5])}; name one of them", Exit.SETTINGS)
    return ids[0]


def _decoded(url: str, body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)
