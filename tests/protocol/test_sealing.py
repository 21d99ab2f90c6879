"""Sealed bytes: opened with the right key in the right place, and by nobody else."""

from itertools import pairwise

import pytest

from lingua_scheduler.protocol.sealing import BrokenSeal, Keyring, OtherKey, TokenSeal, is_sealed, read_keys

OLD, NEW = b"o" * 32, b"n" * 32
SAID = b'{"text_asr":"zebrafinch"}'


def test_what_is_sealed_is_opened_in_its_place_alone() -> None:
    ring = Keyring([OLD])
    sealed = ring.seal(SAID, b"letter 1")
    assert is_sealed(sealed)
    assert not is_sealed(SAID)
    assert b"zebra" not in sealed
    assert ring.seal(SAID, b"letter 1") != sealed
    assert ring.open(sealed, b"letter 1") == SAID
    with pytest.raises(BrokenSeal):
        ring.open(sealed, b"letter 2")


@pytest.mark.parametrize("length", range(60))
def test_what_was_cut_short_or_changed_is_told_from_what_was_sealed_with_another_key(length: int) -> None:
    ring = Keyring([OLD])
    sealed = ring.seal(SAID, b"")
    with pytest.raises((BrokenSeal, OtherKey)):
        ring.open(sealed[: min(length, len(sealed) - 1)], b"")
    with pytest.raises((BrokenSeal, OtherKey)):
        ring.open(sealed[: length % len(sealed)] + b"\x00" + sealed[length % len(sealed) :], b"")
    with pytest.raises(OtherKey):
        Keyring([NEW]).open(sealed, b"")


def test_keys_are_rotated_in_three_steps_while_everybody_reads_everything() -> None:
    steps = [Keyring(keys) for keys in ([OLD], [OLD, NEW], [NEW, OLD], [NEW])]
    for before, after in pairwise(steps):
        assert after.open(before.seal(SAID, b""), b"") == SAID
        assert before.open(after.seal(SAID, b""), b"") == SAID
    assert steps[0].ids[0] == steps[1].ids[0] != steps[2].ids[0]


def test_a_parked_outcome_is_opened_with_the_token_of_its_session_alone() -> None:
    seal = TokenSeal("s-1", "s-1.token")
    sealed = seal.seal(SAID)
    assert is_sealed(sealed)
    assert b"zebra" not in sealed
    assert seal.seal(SAID) == sealed  # parked twice it is there once
    assert TokenSeal("s-1", "s-1.token").open(sealed) == SAID
    for other in (TokenSeal("s-1", "s-1.guess"), TokenSeal("s-2", "s-1.token")):
        with pytest.raises(BrokenSeal):
            other.open(sealed)
    for rubbish in (b"", b"\xc1", sealed[:-1], sealed + b"x"):
        with pytest.raises(BrokenSeal):
            seal.open(rubbish)


@pytest.mark.parametrize(
    ("text", "count"),
    [(OLD.hex(), 1), (f"# first\n\n{OLD.hex()}  # in use\n{NEW.hex().upper()}\n", 2), (f"{OLD.hex()}\n" * 2, 1)],
)
def test_a_key_file_is_read(text: str, count: int) -> None:
    assert len(read_keys(text).ids) == count


@pytest.mark.parametrize("text", ["", "# nothing", "zz" * 32, OLD.hex()[2:], "\n".join(c * 64 for c in "abc")])
def test_a_key_file_that_is_none_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="key") as refusal:
        read_keys(text)
    assert text[:20] not in str(refusal.value) or not text


def test_derived_keys_follow_the_order_of_the_ring_and_differ_by_purpose() -> None:
    [old], [new] = Keyring([OLD]).derive(b"one"), Keyring([NEW]).derive(b"one")
    assert Keyring([NEW, OLD]).derive(b"one") == (new, old)
    assert len({old, new, OLD, *Keyring([OLD]).derive(b"other")}) == 4
