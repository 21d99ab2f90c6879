"""Keys from a file: refused as a whole when something is wrong at the start, kept as they were when it is later."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.access.credential_sets import CredentialSet
from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.access import keys_file
from lingua_scheduler.services.access.keys_file import KeysFile, KeysFileError
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.credentials import key, keys_toml

DIGEST = "0" * 64
GOOD = f'[[keys]]\nid = "aaaaaaaaaaaa"\nkind = "service"\ndigest = "{DIGEST}"\n'


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def read(path: Path) -> CredentialSet:
    file = KeysFile(path)
    file.read()
    return file.known


def test_keys_and_issuers_are_read(tmp_path: Path) -> None:
    text = f"""
[[keys]]
id = "aaaaaaaaaaaa"
kind = "operator"
digest = "{DIGEST}"
role = "admin"
tenant = "*"
networks = ["10.0.0.0/8"]
expires = 2030-01-31T00:00:00Z

[[keys]]
id = "bbbbbbbbbbbb"
kind = "sv"
digest = "{DIGEST}"
act_for = ["acme"]

[[issuers]]
id = "k1"
issuer = "https://acme.example"
algorithm = "RS256"
jwks_url = "https://acme.example/keys"
"""
    operator = Credential(
        id="aaaaaaaaaaaa",
        kind=KeyKind.OPERATOR,
        digest=DIGEST,
        role=Role.ADMIN,
        tenant="*",
        networks=("10.0.0.0/8",),
        expires_ms=1_896_048_000_000,
    )
    service = Credential(id="bbbbbbbbbbbb", kind=KeyKind.SERVICE, digest=DIGEST, act_for=("acme",))
    issuer = Issuer(id="k1", issuer="https://acme.example", algorithm="RS256", jwks_url="https://acme.example/keys")
    found = read(write(tmp_path, text))
    assert found == CredentialSet({operator.id: operator, service.id: service}, {"k1": issuer})


def test_an_empty_file_has_no_keys(tmp_path: Path) -> None:
    assert read(write(tmp_path, "")) == CredentialSet()


@pytest.mark.parametrize("kind", KeyKind)
def test_a_kind_has_a_short_and_a_long_name(tmp_path: Path, kind: KeyKind) -> None:
    for name in (kind.value, kind.name.lower()):
        (found,) = read(write(tmp_path, GOOD.replace("service", name))).credentials.values()
        assert found.kind is kind


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_other_users_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path, GOOD, mode)
    with pytest.raises(KeysFileError, match=f"chmod 600 {path}"):
        KeysFile(path).read()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[keys]", "cannot be used"),
        ("keys = 5", r"write \[\[keys\]\]"),
        ("[keys]\nid = 'x'", r"write \[\[keys\]\]"),
        ("issuers = [1]", r"write \[\[issuers\]\]"),
        ("[[key]]\nid = 'x'", "it has key; only"),
        ("[[keys]]\nname = 'x'", r"number 1 \(without id\).*required field"),
        (GOOD + "expire_ms = 5", r"number 1 \(aaaaaaaaaaaa\): unknown field expire_ms"),
        (GOOD + "in_file = true", "unknown field in_file"),
        (GOOD + "secret = 'x'", "unknown field secret"),
        (GOOD + "expires = 2030-01-31", "with its zone"),
        (GOOD + "expires = 2030-01-31T00:00:00", "with its zone"),
        (GOOD + "expires_ms = -1", "expires_ms"),
        (GOOD + "tenant = 'Not A Tenant'", "tenant"),
        (GOOD.replace("service", "root"), "root"),
        (GOOD.replace('"service"', "[1]"), "kind"),
        (GOOD.replace(DIGEST, "short"), "digest"),
        (GOOD + GOOD, r"number 2 \(aaaaaaaaaaaa\): its id is there twice"),
    ],
)
def test_a_start_with_a_wrong_file_is_refused_and_says_what_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(KeysFileError, match=reason):
        KeysFile(write(tmp_path, text)).read()


def test_an_error_never_shows_a_key_that_was_pasted_as_an_id(tmp_path: Path) -> None:
    secret = fresh_key(KeyKind.SERVICE)
    with pytest.raises(KeysFileError, match="with a wrong id") as caught:
        KeysFile(write(tmp_path, GOOD.replace("a" * 12, str(secret)))).read()
    assert secret.secret not in str(caught.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(KeysFileError, match="cannot be used"):
        KeysFile(path).read()


def test_there_is_room_for_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_file, "MAX_CREDENTIALS", 1)
    assert len(read(write(tmp_path, GOOD)).credentials) == 1
    with pytest.raises(KeysFileError, match="at most 1"):
        KeysFile(write(tmp_path, GOOD + GOOD.replace("a" * 12, "b" * 12))).read()


def test_it_is_read_again_when_it_changes_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = KeysFile(keys_toml(tmp_path, key("a"), key("b")))
    file.read()
    reads = []
    parse = keys_file.parse

    def counting(tables: Mapping[str, Any]) -> CredentialSet:
        reads.append(1)
        return parse(tables)

    monkeypatch.setattr(keys_file, "parse", counting)
    assert not file.look()
    assert reads == []
    keys_toml(tmp_path, key("b"), key("c"))
    assert file.look()
    assert set(file.known.credentials) == {key("b").id, key("c").id}
    # Written anew with the same content: no news.
    keys_toml(tmp_path, key("b"), key("c"))
    assert not file.look()
    assert reads == [1, 1]


@pytest.mark.parametrize("fault", ["broken", "missing", "exposed"])
def test_what_goes_wrong_later_leaves_the_last_good_keys_and_is_told_once(tmp_path: Path, fault: str) -> None:
    path = keys_toml(tmp_path, key("a"))
    file = KeysFile(path)
    file.read()
    match fault:
        case "broken":
            write(tmp_path, "[[keys]")
        case "missing":
            path.unlink()
        case "exposed":
            path.chmod(0o644)
    with capture_logs() as logged:
        for _ in range(3):
            assert not file.look()
    assert [line["event"] for line in logged] == ["keys_file.unread"]
    assert set(file.known.credentials) == {key("a").id}
    keys_toml(tmp_path, key("b"))
    with capture_logs() as logged:
        assert file.look()
    assert [line["event"] for line in logged] == ["keys_file.changed"]
    assert set(file.known.credentials) == {key("b").id}


def test_a_file_that_is_put_right_with_its_old_times_is_read(tmp_path: Path) -> None:
    """As a backup program does; the time at which its name or mode changed tells."""
    path = keys_toml(tmp_path, key("a"))
    file = KeysFile(path)
    file.read()
    times = path.stat()
    path.write_text(path.read_text().replace(key("a").id, key("b").id))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file.look()
    assert set(file.known.credentials) == {key("b").id}
