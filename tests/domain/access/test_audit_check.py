"""A check of the audit log names the first entry that is not as it was written."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.domain.access.audit import AuditAction, AuditEntry, AuditHead, canonical
from lingua_scheduler.domain.access.audit_check import MOST_FAULTS, AuditFaultKind, AuditVerdict, verify
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from tests.support.audits import KEYS, OTHER_KEYS, anchor, chain, following, texts

LENGTH = 12
WHOLE = chain(LENGTH)
HEAD = WHOLE[-1].head
Kind = AuditFaultKind


def first(verdict: AuditVerdict) -> tuple[int, AuditFaultKind]:
    return verdict.faults[0].seq, verdict.faults[0].kind


def test_a_whole_log_is_good() -> None:
    verdict = verify(texts(WHOLE), KEYS, [anchor(WHOLE[4].head), anchor(HEAD)], HEAD)
    assert verdict.is_good
    assert (verdict.entries, verdict.first, verdict.last, verdict.anchors) == (LENGTH, 1, LENGTH, 2)


def test_an_empty_log_is_good_unless_an_anchor_or_the_head_names_an_entry() -> None:
    assert verify([], KEYS).is_good
    assert first(verify([], KEYS, [anchor(AuditHead(3, "ab" * 32))])) == (1, Kind.MISSING)
    assert first(verify([], KEYS, head=HEAD)) == (1, Kind.MISSING)


def test_a_changed_entry_is_named() -> None:
    log = texts(WHOLE)
    log[4] = log[4].replace("node-5", "node-6")
    verdict = verify(log, KEYS, head=HEAD)
    assert (first(verdict), verdict.fault_count) == ((5, Kind.CHANGED), 1)


def test_a_changed_number_does_not_blame_the_others() -> None:
    log = texts(WHOLE)
    log[4] = log[4].replace('"seq":5', '"seq":5000')
    verdict = verify(log, KEYS, head=HEAD)
    assert (first(verdict), verdict.fault_count) == ((5, Kind.CHANGED), 1)


def test_an_entry_that_cannot_be_read_is_named() -> None:
    log = texts(WHOLE)
    log[4] = "{"
    assert first(verify(log, KEYS, head=HEAD)) == (5, Kind.UNREADABLE)


def test_missing_entries_are_named() -> None:
    verdict = verify(texts(WHOLE[:3] + WHOLE[6:]), KEYS, head=HEAD)
    assert first(verdict) == (4, Kind.MISSING)
    assert verdict.faults[0].until == 6


def test_swapped_entries_are_named() -> None:
    swapped = [*WHOLE[:4], WHOLE[5], WHOLE[4], *WHOLE[6:]]
    verdict = verify(texts(swapped), KEYS, head=HEAD)
    assert first(verdict) == (5, Kind.REORDERED)


def test_an_entry_that_is_there_twice_is_named() -> None:
    assert first(verify(texts(WHOLE[:5] + WHOLE[4:]), KEYS, head=HEAD)) == (5, Kind.REORDERED)


def test_an_entry_that_was_put_in_without_the_key_is_named() -> None:
    forged = following(WHOLE[4].head, "keys.create", OTHER_KEYS)
    assert first(verify(texts([*WHOLE[:5], forged, *WHOLE[5:]]), KEYS)) == (6, Kind.UNKNOWN_KEY)
    claimed = msgspec.structs.replace(forged, key=KEYS.current)
    assert first(verify(texts([*WHOLE[:5], claimed, *WHOLE[5:]]), KEYS)) == (6, Kind.CHANGED)


def test_a_tail_that_was_cut_off_is_noticed_by_the_head() -> None:
    verdict = verify(texts(WHOLE[:9]), KEYS, head=HEAD)
    assert first(verdict) == (10, Kind.MISSING)
    assert verdict.faults[0].until == LENGTH


def test_a_tail_that_was_cut_off_with_the_head_is_noticed_by_an_anchor_alone() -> None:
    cut = texts(WHOLE[:9])
    assert verify(cut, KEYS, head=WHOLE[8].head).is_good
    assert first(verify(cut, KEYS, [anchor(WHOLE[10].head)], WHOLE[8].head)) == (10, Kind.MISSING)


def test_entries_that_came_after_the_head_was_read_are_fine() -> None:
    assert verify(texts(WHOLE), KEYS, head=WHOLE[8].head).is_good


def test_a_chain_made_anew_with_the_key_is_noticed_by_an_anchor_alone() -> None:
    anew = [*WHOLE[:6], following(WHOLE[5].head, "keys.revoke")]
    anew += chain(LENGTH - 7, anew[-1].head)
    assert verify(texts(anew), KEYS, head=anew[-1].head).is_good
    assert first(verify(texts(anew), KEYS, [anchor(WHOLE[9].head)], anew[-1].head)) == (10, Kind.REPLACED)


def test_a_chain_made_anew_without_the_key_is_noticed() -> None:
    anew = chain(LENGTH, keys=AuditKeys([b"guess" * 8]))
    claimed = [msgspec.structs.replace(entry, key=KEYS.current) for entry in anew]
    assert first(verify(texts(anew), KEYS)) == (1, Kind.UNKNOWN_KEY)
    assert first(verify(texts(claimed), KEYS)) == (1, Kind.CHANGED)


def test_two_chains_put_together_are_noticed() -> None:
    other = [following(AuditHead(), "other.first")]
    other += chain(LENGTH, other[-1].head)
    assert first(verify(texts(WHOLE[:5] + other[5:]), KEYS)) == (6, Kind.CHANGED)


def test_a_missing_beginning_is_noticed_unless_an_entry_says_that_it_was_removed() -> None:
    assert first(verify(texts(WHOLE[4:]), KEYS)) == (1, Kind.MISSING)
    trimmed = [*WHOLE, following(HEAD, AuditAction.LOG_TRIMMED, kept_from=5)]
    assert verify(texts(trimmed[4:]), KEYS).is_good
    # It was noted, and not done yet.
    assert verify(texts(trimmed), KEYS).is_good
    verdict = verify(texts(trimmed[5:]), KEYS)
    assert (first(verdict), verdict.faults[0].until) == ((5, Kind.MISSING), 5)


def test_an_entry_cannot_allow_the_removal_of_what_follows_it() -> None:
    log = [*WHOLE, following(HEAD, AuditAction.LOG_TRIMMED, kept_from=LENGTH + 5)]
    log += chain(9, log[-1].head)
    assert first(verify(texts(log[LENGTH + 4 :]), KEYS)) == (1, Kind.MISSING)


def test_an_anchor_of_an_entry_that_is_not_kept_any_more_is_counted_as_past() -> None:
    trimmed = [*WHOLE, following(HEAD, AuditAction.LOG_TRIMMED, kept_from=5)]
    verdict = verify(texts(trimmed[4:]), KEYS, [anchor(WHOLE[1].head), anchor(WHOLE[7].head)])
    assert (verdict.is_good, verdict.anchors, verdict.anchors_past) == (True, 1, 1)


def test_a_new_chain_after_a_loss_says_what_is_missing() -> None:
    begun = following(HEAD, AuditAction.CHAIN_BEGUN, last_seq=HEAD.seq, last_hash=HEAD.hash)
    assert verify(texts([*WHOLE, begun]), KEYS).is_good
    verdict = verify(texts([*WHOLE[:8], begun]), KEYS)
    assert (first(verdict), verdict.faults[0].until) == ((9, Kind.LOST), LENGTH)
    verdict = verify(texts([begun]), KEYS)
    assert (first(verdict), verdict.faults[0].until) == ((1, Kind.LOST), LENGTH)


def test_after_a_loss_that_is_known_the_check_can_start_later() -> None:
    begun = following(HEAD, AuditAction.CHAIN_BEGUN, last_seq=HEAD.seq, last_hash=HEAD.hash)
    after = [begun, *chain(3, begun.head)]
    anchors = [anchor(WHOLE[3].head), anchor(after[-1].head)]
    assert not verify(texts(after), KEYS, anchors).is_good
    verdict = verify(texts(after), KEYS, anchors, after[-1].head, start=begun.seq)
    assert (verdict.is_good, verdict.anchors) == (True, 1)
    assert verify(texts(WHOLE[:3] + WHOLE[5:]), KEYS, start=6).is_good


def test_an_anchor_with_a_wrong_signature_is_a_fault_and_one_of_another_key_is_ignored() -> None:
    forged = anchor(WHOLE[3].head)._replace(head=WHOLE[4].head)
    assert first(verify(texts(WHOLE), KEYS, [forged])) == (5, Kind.REPLACED)
    verdict = verify(texts(WHOLE), KEYS, [anchor(WHOLE[3].head, OTHER_KEYS)])
    assert (verdict.is_good, verdict.anchors, verdict.anchors_foreign) == (True, 0, 1)


def test_of_very_many_faults_the_first_are_listed_and_all_are_counted() -> None:
    log = texts(chain(3 * MOST_FAULTS, AuditHead(50, "ab" * 32)))
    verdict = verify([text.replace("10.0.0.1", "10.0.0.2") for text in log], KEYS)
    assert (len(verdict.faults), verdict.fault_count) == (MOST_FAULTS, 3 * MOST_FAULTS + 1)
    assert first(verdict) == (1, Kind.MISSING)


def _rewritten(entries: list[AuditEntry], at: int) -> list[AuditEntry]:
    """By one who has the key: everything from one entry on has right hashes again."""
    found = entries[:at]
    for entry in entries[at:]:
        head = found[-1].head if found else AuditHead()
        changed = msgspec.structs.replace(entry, seq=head.seq + 1, prev=head.hash, object=f"{entry.object}!")
        found.append(KEYS.hashed(changed))
    return found


WAYS: dict[str, Callable[[list[AuditEntry], int, int], list[AuditEntry]]] = {
    "changed": lambda log, at, _: [
        msgspec.structs.replace(entry, object="x") if number == at else entry for number, entry in enumerate(log)
    ],
    "removed": lambda log, at, _: log[:at] + log[at + 1 :],
    "swapped": lambda log, at, to: [
        log[to] if number == at else log[at] if number == to else entry for number, entry in enumerate(log)
    ],
    "repeated": lambda log, at, to: [*log[:to], log[at], *log[to:]],
    "cut": lambda log, at, _: log[:at],
    "beheaded": lambda log, at, _: log[at + 1 :],
    "rewritten": lambda log, at, _: _rewritten(log, at),
    "rewritten_shorter": lambda log, at, _: _rewritten(log[:at] + log[at + 1 :], at),
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 20), draw=st.data())
def test_every_change_is_noticed_with_an_anchor_of_the_end(way: str, length: int, draw: st.DataObject) -> None:
    log = chain(length)
    at, to = draw.draw(st.integers(0, length - 1)), draw.draw(st.integers(0, length - 1))
    changed = WAYS[way](log, at, to)
    if changed == log:
        return
    anchors = [anchor(log[-1].head)]
    # The head in Redis is as the attacker wants it.
    head = changed[-1].head if changed else None
    verdict = verify(texts(changed), KEYS, anchors, head)
    assert not verdict.is_good
    assert verdict.faults[0].seq <= length
    assert verify(texts(log), KEYS, anchors, log[-1].head).is_good


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, LENGTH - 1), draw=st.data())
def test_any_other_byte_in_any_entry_is_noticed_at_that_entry(at: int, draw: st.DataObject) -> None:
    text = canonical(WHOLE[at]).decode()
    place = draw.draw(st.integers(0, len(text) - 1))
    letter = draw.draw(st.characters(codec="utf-8").filter(lambda one: one != text[place]))
    log = texts(WHOLE)
    log[at] = text[:place] + letter + text[place + 1 :]
    verdict = verify(log, KEYS, [anchor(HEAD)], HEAD)
    assert not verdict.is_good
    # A changed hash shows in the entry itself.
    assert verdict.faults[0].seq == at + 1
