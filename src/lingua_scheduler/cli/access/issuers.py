"""`lingua keys issuer`: whose signature makes a token valid."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec
from rich.table import Table

from lingua_scheduler.cli.access.credentials import ROOT, RedisPlace, at_desk, described_issuer, read, state_of
from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, Failure, duration_ms, fail
from lingua_scheduler.cli.redis_access import redis_options
from lingua_scheduler.cli.wording import clock, now_ms, plain, table_console
from lingua_scheduler.domain.access.credentials import ALL_TENANTS, DEFAULT_TENANT, is_tenant
from lingua_scheduler.domain.access.key_wishes import IssuerWish

ALGORITHMS = ("EdDSA", "ES256", "RS256")
MAX_KEY_BYTES = 8192


@click.group(cls=Group)
def issuer() -> None:
    """Say whose tokens are valid: an app's backend, by its public key.

    \b
    lingua keys issuer add app-1 --issuer https://app.example --public-key app.pem
    lingua keys issuer list
    lingua keys issuer revoke app-1
    """


@issuer.command()
@click.argument("issuer_id", metavar="ID")
@click.option("--issuer", "iss", required=True, metavar="TEXT", help="What `iss` of its tokens must be.")
@click.option(
    "--public-key",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="PEM file with its public key; then ID is the `kid` of its tokens.",
)
@click.option("--jwks-url", metavar="URL", help="Instead: https:// address of its public keys (JWKS).")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), help="With --jwks-url.  [default: EdDSA]")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, metavar="NAME", help="Tenant of its tokens.")
@click.option("--act-for", multiple=True, metavar="TENANT", help="Further tenants, '*' = all; repeatable.")
@click.option(
    "--expires", "expires_in_ms", metavar="TIME", callback=duration_ms, help="Valid for so long, such as 90d."
)
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def add(
    issuer_id: str,
    iss: str,
    file: Path | None,
    jwks_url: str | None,
    algorithm: str | None,
    tenant: str,
    act_for: tuple[str, ...],
    expires_in_ms: int | None,
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Accept the tokens of an issuer.

    \b
    lingua keys issuer add app-1 --issuer https://app.example --public-key app.pem
    """
    if (file is None) == (jwks_url is None):
        raise click.UsageError("name either --public-key or --jwks-url")
    if file is not None and algorithm is not None:
        raise click.UsageError("--algorithm goes with --jwks-url; a public key has its own")
    for name in (tenant, *act_for):
        if not is_tenant(name) and (name != ALL_TENANTS or name == tenant):
            fail(f"{name!r} cannot be a tenant", Exit.SETTINGS)
    public_key = "" if file is None else _public_key(file)
    told = {
        "id": issuer_id,
        "issuer": iss,
        "tenant": tenant,
        "act_for": act_for,
        "algorithm": algorithm or (_algorithm_of(public_key) if public_key else ALGORITHMS[0]),
        "public_key": public_key,
        "jwks_url": "" if jwks_url is None else _checked_url(jwks_url),
        "expires_in_ms": expires_in_ms or 0,
    }
    try:
        wish = msgspec.convert(told, IssuerWish)
    except msgspec.ValidationError as error:
        fail(f"this cannot be an issuer: {error}", Exit.SETTINGS)
    place, notes = RedisPlace(redis_url, data_dir, config), ("issuers.create", issuer_id)
    made = at_desk(place, lambda desk: desk.add_issuer(ROOT, wish), notes)
    if as_json:
        click.echo(json.dumps(described_issuer(made, now_ms())))
        return
    click.echo(f"tokens of {plain(iss)} are accepted for tenant {tenant} ({made.algorithm}, issuer {made.id})")


@issuer.command("list")
@redis_options
@click.option("--all", "every", is_flag=True, help="Also those that are expired or revoked.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def list_issuers(redis_url: str | None, data_dir: str | None, config: Path | None, every: bool, as_json: bool) -> None:
    """List issuers of tokens.

    \b
    lingua keys issuer list
    """
    at_ms = now_ms()
    found = read(RedisPlace(redis_url, data_dir, config)).issuers.values()
    kept = sorted((one for one in found if every or one.is_live(at_ms)), key=lambda one: one.id)
    if as_json:
        click.echo(json.dumps({"issuers": [described_issuer(one, at_ms) for one in kept]}))
        return
    if not kept:
        click.echo("there is no issuer; lingua keys issuer add accepts the tokens of one")
        return
    table = Table(box=None, pad_edge=False)
    for header in ("id", "issuer", "tenant", "algorithm", "keys", "state", "until"):
        table.add_column(header)
    for one in kept:
        ends_ms = one.ended_ms()
        until = clock(ends_ms, at_ms) if ends_ms else "-"
        source = plain(one.jwks_url) or "public key"
        table.add_row(one.id, plain(one.issuer), one.tenant, one.algorithm, source, state_of(one, at_ms), until)
    table_console().print(table)


@issuer.command()
@click.argument("issuer_id", metavar="ID")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def revoke(issuer_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Accept no more tokens of an issuer, and close what was opened with them.

    \b
    lingua keys issuer revoke app-1
    """

    place, notes = RedisPlace(redis_url, data_dir, config), ("issuers.revoke", issuer_id)
    ended = at_desk(place, lambda desk: desk.revoke_issuer(ROOT, issuer_id), notes)
    if as_json:
        click.echo(json.dumps(described_issuer(ended, now_ms())))
        return
    click.echo(f"issuer {ended.id} is revoked")


def _public_key(file: Path) -> str:
    """The PEM text; a private key is refused, because it must not leave the backend."""
    try:
        text = file.read_bytes()[: MAX_KEY_BYTES + 1].decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not PEM"
        fail(f"{file} cannot be read: {why}", Exit.SETTINGS)
    if "PRIVATE KEY" in text:
        fail(f"{file} is a private key, which stays with the app; export it: openssl pkey -pubout", Exit.SETTINGS)
    return text


def _algorithm_of(pem: str) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    wanted = "use an Ed25519, a P-256 or an RSA key of 2048 bits or more"
    try:
        key: Any = load_pem_public_key(pem.encode())
    except Exception:
        # Of many types; what they say may quote the file.
        fail(f"the file has no public key in PEM; {wanted}", Exit.SETTINGS)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "EdDSA"
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return "ES256"
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048:
        return "RS256"
    raise Failure(f"no tokens can be signed with such a key; {wanted}", Exit.SETTINGS)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None:
        fail("--jwks-url must be an https:// address without a password", Exit.SETTINGS)
    return url
