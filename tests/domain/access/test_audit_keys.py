"""Keys of the audit log: derived, named, several at once."""

import msgspec

from lingua_scheduler.domain.access.audit_keys import UNKEYED, AuditKeys
from tests.support.audits import KEYS, OTHER_KEYS, chain


def test_the_same_secret_gives_the_same_keys_and_another_one_others() -> None:
    again = AuditKeys([b"k" * 32])
    assert again.current == KEYS.current != OTHER_KEYS.current
    assert again.sign(b"x") == KEYS.sign(b"x") != OTHER_KEYS.sign(b"x")
    assert again.public_key(again.current) == KEYS.public_key(KEYS.current) != ""


def test_nothing_public_shows_the_secret() -> None:
    shown = KEYS.current + KEYS.public_key(KEYS.current) + KEYS.sign(b"x")
    assert (b"k" * 8).hex() not in shown


def test_a_hash_is_right_only_with_its_own_key() -> None:
    (entry,) = chain(1)
    assert KEYS.is_right(entry) is True
    assert KEYS.is_right(msgspec.structs.replace(entry, object="other")) is False
    assert OTHER_KEYS.is_right(entry) is None
    assert OTHER_KEYS.is_right(msgspec.structs.replace(entry, key=OTHER_KEYS.current)) is False


def test_after_a_rotation_entries_of_both_keys_are_right() -> None:
    rotated = AuditKeys([b"o" * 32, b"k" * 32])
    assert rotated.current == OTHER_KEYS.current
    assert rotated.ids == (OTHER_KEYS.current, KEYS.current)
    assert [rotated.is_right(entry) for entry in (*chain(1), *chain(1, keys=OTHER_KEYS))] == [True, True]


def test_a_signature_is_of_one_key_and_one_statement() -> None:
    signature = KEYS.sign(b"statement")
    assert KEYS.is_signed(KEYS.current, b"statement", signature) is True
    assert KEYS.is_signed(KEYS.current, b"other", signature) is False
    assert KEYS.is_signed(KEYS.current, b"statement", "zz") is False
    assert OTHER_KEYS.is_signed(KEYS.current, b"statement", signature) is None


def test_without_a_secret_hashes_are_made_and_nothing_is_signed() -> None:
    bare = AuditKeys()
    (entry,) = chain(1, keys=bare)
    assert (bare.is_keyed, entry.key) == (False, UNKEYED)
    assert bare.is_right(entry) is True
    assert KEYS.is_right(entry) is None
    assert (bare.sign(b"x"), bare.public_key(bare.current)) == ("", "")
    assert bare.is_signed(UNKEYED, b"x", "") is None
