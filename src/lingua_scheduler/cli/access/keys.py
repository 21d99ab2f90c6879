"""`lingua keys`"""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.access.creating import create, rotate
from lingua_scheduler.cli.access.credentials import (
    ROOT,
    RedisPlace,
    at_desk,
    described,
    granted,
    key_id_of,
    read,
    state_of,
    unknown_key,
)
from lingua_scheduler.cli.access.issuers import issuer
from lingua_scheduler.cli.credentials import entered_key
from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.redis_access import redis_options
from lingua_scheduler.cli.wording import clock, counted, now_ms, plain, table_console
from lingua_scheduler.domain.access.credentials import Credential, is_tenant
from lingua_scheduler.domain.access.key_wishes import KIND_NAMES
from lingua_scheduler.services.access.key_desk import KeyDesk
from lingua_sdk.domain.key_texts import BadKey, KeyText, shown


@click.group(cls=Group)
def keys() -> None:
    """Create, list, rotate and revoke keys.

    These commands go straight to Redis, so they need no key themselves: the first one must be made without one.
    With access to Redis one may do everything. A change reaches all instances within a second. Keys of auth.keys_file
    are not in Redis; edit that file.

    \b
    lingua keys create --admin      the first key; then: lingua login
    lingua keys list
    lingua keys revoke lk_sv_k3jPq0aZ81Ty
    """


@keys.command("list")
@redis_options
@click.option("--all", "all_keys", is_flag=True, help="Also those that are expired or revoked.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def list_keys(redis_url: str | None, data_dir: str | None, config: Path | None, all_keys: bool, as_json: bool) -> None:
    """List keys, without their secrets.

    \b
    lingua keys list
    lingua keys list --all --json | jq '.keys[] | select(.kind == "node")'
    """
    found = read(RedisPlace(redis_url, data_dir, config)).credentials.values()
    at_ms = now_ms()
    kept = sorted((one for one in found if all_keys or one.is_live(at_ms)), key=lambda one: (one.created_ms, one.id))
    if as_json:
        click.echo(json.dumps({"keys": [described(one, at_ms) for one in kept]}))
        return
    if not kept:
        click.echo("there is no key; make one with: lingua keys create --admin")
        return
    table = Table(box=None, pad_edge=False)
    for header in ("key", "kind", "role", "tenant", "state", "until", "created", "name"):
        table.add_column(header)
    for one in kept:
        table.add_row(*_row(one, at_ms))
    table_console().print(table)


@keys.command()
@click.argument("key_id", metavar="ID")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def show(key_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Show what a key may do, and who made it.

    \b
    lingua keys show lk_sv_k3jPq0aZ81Ty
    """
    wanted = key_id_of(key_id)
    found = read(RedisPlace(redis_url, data_dir, config)).credentials.get(wanted)
    if found is None:
        unknown_key(wanted)
    at_ms = now_ms()
    told = described(found, at_ms)
    if as_json:
        click.echo(json.dumps(told))
        return
    for name, value in told.items():
        words = clock(value, at_ms) if name.endswith("_ms") and value else _words(value)
        if words and name != "id":
            click.echo(f"{name.removesuffix('_ms').replace('_', ' '):10} {plain(words)}")


@keys.command()
@click.argument("key_ids", metavar="[ID]...", nargs=-1)
@click.option("--all-of", "tenant", metavar="TENANT", help="Every key and issuer of a tenant, and all its tokens.")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def revoke(
    key_ids: tuple[str, ...],
    tenant: str | None,
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """End keys now, for good.

    Connections that were opened with them are closed on all instances within a second. With --all-of, tokens that were
    issued until now are void, too. While Redis is away nothing can be revoked: exit code 3.

    \b
    lingua keys revoke lk_sv_k3jPq0aZ81Ty
    lingua keys revoke --all-of acme
    """
    if bool(key_ids) == (tenant is not None):
        raise click.UsageError("name the keys to revoke, or use --all-of TENANT")
    if tenant is not None and not is_tenant(tenant):
        fail(f"{tenant!r} cannot be a tenant", Exit.SETTINGS)
    wanted = [key_id_of(text) for text in key_ids]

    async def work(desk: KeyDesk) -> list[Credential]:
        return await (_end_all(desk, wanted) if tenant is None else _end_all_of(desk, tenant))

    notes = ("keys.revoke", " ".join(wanted)) if tenant is None else ("revocations.create", tenant)
    ended = at_desk(RedisPlace(redis_url, data_dir, config), work, notes)
    if as_json:
        click.echo(json.dumps({"revoked": [described(one, now_ms()) for one in ended]}))
        return
    for one in ended:
        click.echo(f"{shown(one.kind, one.id)} is revoked")
    if tenant is not None:
        click.echo(f"tenant {tenant}: {counted(len(ended), 'key')} revoked; its tokens of until now are void")


@keys.command()
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def check(as_json: bool) -> None:
    """Check a key for typing errors, without asking a scheduler.

    The key is read from standard input, or asked for without showing it. Whether it is valid, a scheduler knows: lingua
    whoami asks one. Exit code 1 if it has an error.

    \b
    lingua keys check < key.txt
    """
    try:
        key = KeyText.parse(entered_key())
    except BadKey as error:
        fail(str(error), Exit.FOUND)
    if as_json:
        click.echo(json.dumps({"id": key.id, "kind": KIND_NAMES[key.kind], "shown": shown(key.kind, key.id)}))
        return
    click.echo(f"{shown(key.kind, key.id)}: a key of kind {KIND_NAMES[key.kind]}, without typing errors")


keys.add_command(create)
keys.add_command(rotate)
keys.add_command(issuer)


async def _end_all(desk: KeyDesk, key_ids: Sequence[str]) -> list[Credential]:
    for key_id in key_ids:
        # Before any is ended.
        granted(desk.key(ROOT, key_id))
    return [granted(await desk.revoke(ROOT, key_id)) for key_id in key_ids]


async def _end_all_of(desk: KeyDesk, tenant: str) -> list[Credential]:
    at_ms = now_ms()
    # Tokens first: with one of them no other session may be opened meanwhile.
    granted(await desk.void_tenant(ROOT, tenant))
    for one in [one for one in desk.issuers(ROOT) if one.tenant == tenant and one.is_live(at_ms)]:
        granted(await desk.revoke_issuer(ROOT, one.id))
    return await _end_all(desk, [one.id for one in desk.keys(ROOT) if one.tenant == tenant and one.is_live(at_ms)])


def _words(value: object) -> str:
    match value:
        case list() | tuple():
            return " ".join(value)
        case bool():
            return "yes" if value else ""
    return str(value) if value else ""


def _row(one: Credential, at_ms: int) -> tuple[str | Text, ...]:
    state = state_of(one, at_ms)
    ended_ms = one.ended_ms()
    return (
        shown(one.kind, one.id),
        KIND_NAMES[one.kind],
        one.role or "-",
        one.tenant,
        Text(state, style="green" if state == "live" else "dim"),
        clock(ended_ms, at_ms) if ended_ms else "-",
        clock(one.created_ms, at_ms) if one.created_ms else "-",
        plain(one.name) or "-",
    )
