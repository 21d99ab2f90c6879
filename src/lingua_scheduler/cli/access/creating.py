"""`lingua keys create` and `lingua keys rotate`: the two commands that show a secret, once."""

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from lingua_scheduler.cli.access.credentials import (
    ROOT,
    RedisPlace,
    at_desk,
    described,
    key_id_of,
)
from lingua_scheduler.cli.access.enrolling import ENROLMENT_RIGHTS, enrolment_options
from lingua_scheduler.cli.options import Exit, duration_ms, fail
from lingua_scheduler.cli.redis_access import own_redis_options, redis_options
from lingua_scheduler.cli.wording import clock, now_ms
from lingua_scheduler.domain.access.credentials import ALL_TENANTS, DEFAULT_TENANT, is_tenant
from lingua_scheduler.domain.access.grants import Pair
from lingua_scheduler.domain.access.key_wishes import KIND_NAMES, KINDS, KeyWish, KindName
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.domain.guards.addresses import read_networks
from lingua_scheduler.domain.nodes.nodes import NODE_ID
from lingua_scheduler.services.access.key_desk import CreatedKey
from lingua_sdk.address import BadAddress, socket_url
from lingua_sdk.domain.key_texts import KeyKind, KeyText, fresh_key, shown
from lingua_sdk.joining import JoinString

DAY_MS = 86_400_000
# Which kinds an option is for; the others are for all.
_FOR = {
    "role": (KeyKind.OPERATOR,),
    "origins": (KeyKind.CLIENT,),
    "pairs": (KeyKind.CLIENT,),
    "node_id": (KeyKind.NODE,),
    "max_slots": (KeyKind.NODE, KeyKind.ENROLMENT),
    "labels": (KeyKind.NODE, KeyKind.ENROLMENT),
    "is_private": (KeyKind.NODE, KeyKind.ENROLMENT),
    **dict.fromkeys(ENROLMENT_RIGHTS, (KeyKind.ENROLMENT,)),
    "act_for": (KeyKind.SERVICE,),
    "signs": (KeyKind.SERVICE,),
}
_OPTIONS = {"origins": "--origin", "pairs": "--pair", "node_id": "--node-id", "max_slots": "--slots"}
_OPTIONS |= {"is_private": "--private"} | ENROLMENT_RIGHTS
# Peers that can only be given a URL. Keys of other kinds would give too much to a reader of their logs.
_PATHS = {KeyKind.CLIENT: "/ws/session", KeyKind.SERVICE: "/ws/session", KeyKind.NODE: "/ws/node"}
_EXPIRES_HELP = "Valid for so long, such as 90d or 12h."


@click.command()
@click.option("--kind", type=click.Choice(list(KINDS)), help="Who uses the key.")
@click.option("--admin", is_flag=True, help="= --kind operator --role admin --tenant '*': may do everything.")
@click.option("--name", default="", help="What it is for, as lists show it.")
@click.option("--tenant", metavar="NAME", help=f"Tenant; for operators '*' = all.  [default: {DEFAULT_TENANT}]")
@click.option("--role", type=click.Choice([role.value for role in Role]), help="operator: what it may do.")
@click.option("--origin", "origins", multiple=True, metavar="URL", help="client: pages that may use it; repeatable.")
@click.option("--pair", "pairs", multiple=True, metavar="PAIR", help="client: only zh:en or '*:fr' …; repeatable.")
@click.option("--node-id", default="", metavar="ID", help="node: the only node that may use it.  [default: the first]")
@click.option(
    "--slots",
    "max_slots",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="node, enrol: at most so many jobs at once.",
)
@enrolment_options
@click.option("--act-for", multiple=True, metavar="TENANT", help="service: tenants it may name, '*' = all; repeatable.")
@click.option("--signs", is_flag=True, help="service: its secret may sign tokens (HS256).")
@click.option("--network", "networks", multiple=True, metavar="CIDR", help="Only from this network; repeatable.")
@click.option(
    "--expires", "expires_in_ms", metavar="TIME", callback=duration_ms, help=f"{_EXPIRES_HELP}  [default: no end]"
)
@click.option("--url", metavar="URL", help="Print this address with the key in it, for a peer that takes only a URL.")
@own_redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def create(
    kind: KindName | None,
    admin: bool,
    expires_in_ms: int | None,
    url: str | None,
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
    **rights: Any,
) -> None:
    """Create a key, and show it once.

    This goes straight to Redis: the first key must be made without one. The scheduler keeps only a digest of the
    secret, so it cannot be shown again.

    \b
    lingua keys create --admin
    lingua keys create --kind operator --role viewer --name grafana
    lingua keys create --kind service --tenant acme --expires 90d
    lingua keys create --kind client --origin https://app.example
    lingua keys create --kind node --node-id gpu-7 --url wss://host
    lingua keys create --kind enrol --label region=eu --url wss://host
    lingua keys create --kind enrol --tenant acme --private --url wss://host

    The key, or the address with --url, is all there is on standard output. Of an enrolment key, --url prints the string
    for lingua node --join.
    """
    if expires_in_ms == 0:
        fail("--expires must be longer than nothing; leave it out for a key without an end", Exit.SETTINGS)
    chosen = _kind(kind, admin, rights)
    address = _address(url, chosen)
    key = fresh_key(chosen)
    wish = _wish(chosen, rights, expires_in_ms)
    place, notes = RedisPlace(redis_url, data_dir, config), ("keys.create", shown(key.kind, key.id))
    # Without a key a scheduler may refuse to start, and with it the embedded Redis.
    made = at_desk(place, lambda desk: desk.create(ROOT, wish, key), notes, starts_server=True)
    _show(made, address, as_json)


@click.command()
@click.argument("key_id", metavar="ID")
@click.option(
    "--overlap",
    "overlap_ms",
    metavar="TIME",
    default="24h",
    show_default=True,
    callback=duration_ms,
    help="How long the old key stays valid; 0s = not at all.",
)
@click.option(
    "--expires", "expires_in_ms", metavar="TIME", callback=duration_ms, help=f"{_EXPIRES_HELP}  [default: as the old]"
)
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def rotate(
    key_id: str,
    overlap_ms: int,
    expires_in_ms: int | None,
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Replace a key by a new one with the same rights.

    Both are valid until the overlap is over. The new key is shown once; put it wherever the old one is used. This goes
    straight to Redis.

    \b
    lingua keys rotate lk_sv_k3jPq0aZ81Ty --overlap 24h
    """
    wanted = key_id_of(key_id)

    place, notes = RedisPlace(redis_url, data_dir, config), ("keys.rotate", wanted)
    done = at_desk(place, lambda desk: desk.rotate(ROOT, wanted, overlap_ms, expires_in_ms), notes)
    _show(done.created, "", as_json, replaces=wanted, replaced_ends_ms=done.before.ended_ms())


def _kind(kind: KindName | None, admin: bool, rights: dict[str, Any]) -> KeyKind:
    if admin:
        if kind not in (None, "operator") or rights["role"] or rights["tenant"]:
            raise click.UsageError("--admin stands for --kind operator --role admin --tenant '*'; leave those out")
        rights |= {"role": Role.ADMIN.value, "tenant": ALL_TENANTS}
        kind = "operator"
    if kind is None:
        raise click.UsageError(f"name the --kind of the key: {', '.join(KINDS)}; or use --admin for the first one")
    chosen = KINDS[kind]
    for name, kinds in _FOR.items():
        if rights[name] and chosen not in kinds:
            option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
            raise click.UsageError(f"{option} is for --kind {' or '.join(KIND_NAMES[one] for one in kinds)}")
    if chosen is KeyKind.OPERATOR and not rights["role"]:
        raise click.UsageError(f"an operator needs a --role: {', '.join(Role)}")
    return chosen


def _address(url: str | None, kind: KeyKind) -> str:
    if url is None:
        return ""
    if kind not in (*_PATHS, KeyKind.ENROLMENT):
        raise click.UsageError(
            f"a key of kind {KIND_NAMES[kind]} must not be in a URL, because those are logged; send it in a header"
        )
    try:
        return socket_url(url, _PATHS.get(kind, ""))
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)


def _wish(kind: KeyKind, rights: dict[str, Any], expires_in_ms: int | None) -> KeyWish:
    tenant = rights.pop("tenant") or DEFAULT_TENANT
    _must_be_tenants(tenant, rights["act_for"], is_operator=kind is KeyKind.OPERATOR)
    if rights["node_id"] and not NODE_ID.fullmatch(rights["node_id"]):
        fail(f"--node-id {rights['node_id']!r} cannot be a node id", Exit.SETTINGS)
    try:
        read_networks(rights["networks"])
    except ValueError as error:
        fail(f"--network: {error}; write it as 192.0.2.0/24", Exit.SETTINGS)
    for pair in rights["pairs"]:
        _must_be_pair(pair)
    told = {"kind": KIND_NAMES[kind], "tenant": tenant, "expires_in_ms": expires_in_ms or 0} | rights
    try:
        return msgspec.convert(told, KeyWish)
    except msgspec.ValidationError as error:
        fail(f"this cannot be a key: {error}", Exit.SETTINGS)


def _must_be_tenants(tenant: str, act_for: tuple[str, ...], *, is_operator: bool) -> None:
    if tenant == ALL_TENANTS and not is_operator:
        fail("--tenant '*' is for operators; a service may --act-for '*'", Exit.SETTINGS)
    for name in (tenant, *act_for):
        if name != ALL_TENANTS and not is_tenant(name):
            fail(f"{name!r} cannot be a tenant: use lower-case letters, digits and -, at most 63", Exit.SETTINGS)


def _must_be_pair(text: str) -> None:
    try:
        msgspec.convert(text, Pair)
    except msgspec.ValidationError:
        fail(f"--pair {text!r} is not a language pair; write it as zh:en or '*:fr'", Exit.SETTINGS)


def _show(created: CreatedKey, address: str, as_json: bool, **more: Any) -> None:
    key, made = KeyText.parse(created.text), created.credential
    is_enrolment = made.kind is KeyKind.ENROLMENT
    pasted = "" if not address else str(JoinString(address, key)) if is_enrolment else f"{address}?access_token={key}"
    if as_json:
        told = (
            described(made, now_ms())
            | {"key": str(key)}
            | ({"join" if is_enrolment else "url": pasted} if pasted else {})
            | more
        )
        click.echo(json.dumps(told))
        return
    ends = f"until {clock(made.expires_ms, now_ms())}" if made.expires_ms else "until it is revoked"
    role = f" {made.role}" if made.role else ""
    tenant = "all tenants" if made.tenant == ALL_TENANTS else f"tenant {made.tenant}"
    if made.is_private:
        tenant = f"{tenant}, for its jobs alone"
    click.echo(
        f"created {shown(made.kind, made.id)}: {KIND_NAMES[made.kind]}{role} of {tenant}, valid {ends}", err=True
    )
    if more:
        old = clock(more["replaced_ends_ms"], now_ms())
        click.echo(f"{shown(made.kind, more['replaces'])} is valid until {old}", err=True)
    thing = "string for lingua node --join" if is_enrolment else "address"
    what = (
        f"This {thing} has the key in it and is shown only now" if pasted else "This is the key; it is shown only now"
    )
    click.echo(f"{what}. Keep it where only its user can read it:", err=True)
    click.echo(pasted or str(key))
