"""`lingua keys issuer`: whose tokens are accepted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from lingua_scheduler.store.store import Store
from tests.support.keyed import keys
from tests.support.servers import RedisProcess

SETTINGS = 2
APP = ("--issuer", "https://app.example")
KEYS: dict[str, Callable[[], Any]] = {
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
}


def pem(folder: Path, algorithm: str = "EdDSA") -> Path:
    path = folder / f"{algorithm}.pem"
    public = KEYS[algorithm]().public_key()
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


@pytest.mark.parametrize("algorithm", list(KEYS))
async def test_a_public_key_has_its_own_algorithm(
    server: RedisProcess, store: Store, tmp_path: Path, algorithm: str
) -> None:
    file = pem(tmp_path, algorithm)
    added = await keys(server, "issuer", "add", "app-1", *APP, "--public-key", str(file), "--tenant", "acme")
    assert added.exit_code == 0, added.output
    found = (await store.credentials.read()).issuers["app-1"]
    assert (found.algorithm, found.public_key, found.tenant) == (algorithm, file.read_text(), "acme")
    assert (found.issuer, found.jwks_url) == ("https://app.example", "")


async def test_an_issuer_is_listed_and_revoked(server: RedisProcess, store: Store) -> None:
    assert "there is no issuer" in (await keys(server, "issuer", "list")).stdout
    where = ("--jwks-url", "https://app.example/jwks.json", "--algorithm", "ES256", "--act-for", "*")
    assert (await keys(server, "issuer", "add", "app-1", *APP, *where)).exit_code == 0
    (told,) = json.loads((await keys(server, "issuer", "list", "--json")).stdout)["issuers"]
    assert (told["id"], told["algorithm"], told["jwks_url"], told["act_for"]) == ("app-1", "ES256", where[1], ["*"])
    assert where[1] in (await keys(server, "issuer", "list")).stdout
    revoked = await keys(server, "issuer", "revoke", "app-1")
    assert (revoked.exit_code, revoked.stdout) == (0, "issuer app-1 is revoked\n")
    assert (await store.credentials.read()).issuers["app-1"].revoked_ms
    assert "there is no issuer" in (await keys(server, "issuer", "list")).stdout
    refused = await keys(server, "issuer", "revoke", "app-2")
    assert (refused.exit_code, "there is no issuer app-2" in refused.stderr) == (SETTINGS, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("app-1", *APP), "name either --public-key or --jwks-url"),
        (("app-1", *APP, "--jwks-url", "http://app.example"), "must be an https:// address"),
        (("app-1", *APP, "--jwks-url", "https://name:password@app.example"), "without a password"),
        (("a b", *APP, "--jwks-url", "https://app.example"), "this cannot be an issuer"),
        (("app-1", *APP, "--jwks-url", "https://app.example", "--tenant", "*"), "cannot be a tenant"),
        (("app-1", *APP, "--public-key", "/nonexistent"), "cannot be read: No such file"),
        (("app-1", *APP, "--public-key", "/nonexistent", "--algorithm", "ES256"), "--algorithm goes with --jwks-url"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    server: RedisProcess, store: Store, arguments: tuple[str, ...], words: str
) -> None:
    refused = await keys(server, "issuer", "add", *arguments)
    assert (refused.exit_code, words in " ".join(refused.stderr.split())) == (SETTINGS, True), refused.output
    assert not (await store.credentials.read()).issuers


async def test_only_public_keys_that_can_sign_are_taken(server: RedisProcess, store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "private.pem"
    private = ed25519.Ed25519PrivateKey.generate()
    secret.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    weak = tmp_path / "weak.pem"
    other = ec.generate_private_key(ec.SECP384R1()).public_key()
    weak.write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("hello")
    for file, words in (
        (secret, "is a private key, which stays with the app"),
        (weak, "no tokens can be signed with such a key"),
        (rubbish, "no public key in PEM"),
    ):
        refused = await keys(server, "issuer", "add", "app-1", *APP, "--public-key", str(file))
        assert (refused.exit_code, words in refused.stderr) == (SETTINGS, True), refused.output
    assert not (await store.credentials.read()).issuers
