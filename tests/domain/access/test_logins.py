"""Logins as values."""

import base64

import msgspec
import pytest

from lingua_scheduler.domain.access.logins import MAX_SECRET_CHARS, Login, digest_of, fresh_login, fresh_secret
from lingua_scheduler.domain.access.people import Person

KEY_ID = "k3jPq0aZ81Ty"
PERSON = Person(issuer="https://id.example", subject="oidc:alice", group="ops")


def test_a_secret_has_256_bits_and_no_two_are_alike() -> None:
    secrets = {fresh_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(base64.urlsafe_b64decode(secret + "=")) == 32 for secret in secrets)
    assert all(len(secret) <= MAX_SECRET_CHARS for secret in secrets)


def test_the_digest_tells_secrets_apart_and_does_not_hold_them() -> None:
    assert len({digest_of(secret) for secret in ("a", "b", "\ud800")}) == 3
    assert "a" * 40 not in digest_of("a" * 40)


def test_a_login_is_read_back_as_it_was() -> None:
    login = fresh_login(KEY_ID, 1, 5)
    assert msgspec.json.decode(msgspec.json.encode(login), type=Login) == login
    assert fresh_login(KEY_ID, 1, 5).id != login.id
    person = fresh_login(PERSON, 1, 5)
    assert msgspec.json.decode(msgspec.json.encode(person), type=Login) == person


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"},
        {"key_id": "short"},
        {"key_id": ""},
        {"expires_ms": -1},
        {"person": msgspec.to_builtins(PERSON)},
        {"key_id": "", "person": {"issuer": "i", "subject": "", "group": "g"}},
    ],
)
def test_what_is_out_of_bounds_is_no_login(change: dict[str, object]) -> None:
    text = msgspec.json.encode(msgspec.to_builtins(fresh_login(KEY_ID, 1, 5)) | change)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Login)


def test_a_login_of_an_earlier_release_is_read() -> None:
    login = msgspec.json.decode(f'{{"id":"{"0" * 16}","key_id":"{KEY_ID}","expires_ms":5}}', type=Login)
    assert (login.key_id, login.person, login.begun_ms) == (KEY_ID, None, 0)
    # And one with a key looks to it as its own do.
    assert set(msgspec.to_builtins(fresh_login(KEY_ID, 0, 5))) == {"id", "key_id", "expires_ms"}
