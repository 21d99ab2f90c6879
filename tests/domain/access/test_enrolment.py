"""Joining as a decision: which newcomer gets a credential, and with which rights."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.enrolment import (
    USED_UP_MS,
    EnrolmentRefused,
    Newcomer,
    NodeIdTaken,
    after,
    credential_for,
    joined_before,
    may_join,
)
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from tests.support.credentials import key

NOW_MS = 1_800_000_000_000
NEW = Newcomer("a" * 64, "gpu-7")


def enrolment(**more: Any) -> Credential:
    return key("enrol", kind=KeyKind.ENROLMENT, tenant="acme", **more)


def joined_node(enrolled: Credential, newcomer: Newcomer = NEW, **changed: Any) -> Credential:
    made = credential_for(enrolled, newcomer, fresh_key(KeyKind.NODE), NOW_MS)
    return msgspec.structs.replace(made, **changed)


def test_a_node_gets_the_rights_of_the_key_it_joins_with() -> None:
    with_all = enrolment(
        max_slots=4, labels={"region": "us"}, networks=("192.0.2.0/24",), is_ephemeral=True,
        needs_approval=True, nodes_live_ms=5_000, max_nodes=3, expires_ms=NOW_MS + 1,
    )  # fmt: skip
    made = joined_node(with_all)
    assert (made.kind, made.tenant, made.node_id, made.name) == (KeyKind.NODE, "acme", "gpu-7", "enrol")
    assert (made.max_slots, made.labels, made.networks) == (4, {"region": "us"}, ("192.0.2.0/24",))
    assert (made.is_ephemeral, made.is_pending) == (True, True)
    # Its end is its own: the enrolment key ends long before it.
    assert (made.created_ms, made.expires_ms) == (NOW_MS, NOW_MS + 5_000)
    assert (made.public_key, made.enrolled_with, made.max_nodes) == (NEW.public_key, with_all.id, 0)
    assert joined_node(enrolment()).expires_ms == 0
    assert not joined_node(enrolment()).is_pending


def test_no_more_nodes_join_than_the_key_allows() -> None:
    for many in (1, 3):
        limited = enrolment(max_nodes=many)
        known = [joined_node(limited, Newcomer("b" * 64, f"n{number}")) for number in range(many)]
        may_join(limited, NEW, known[1:], NOW_MS)
        with pytest.raises(EnrolmentRefused, match="used up"):
            may_join(limited, NEW, known, NOW_MS)
        # A node that ended was let in all the same.
        ended = [msgspec.structs.replace(one, revoked_ms=1) for one in known]
        with pytest.raises(EnrolmentRefused, match="used up"):
            may_join(limited, NEW, ended, NOW_MS)
        may_join(enrolment(), NEW, known, NOW_MS)


def test_an_id_that_another_credential_has_is_not_given_away() -> None:
    bound = key("old", kind=KeyKind.NODE, node_id="gpu-7")
    with pytest.raises(NodeIdTaken, match="gpu-7"):
        may_join(enrolment(), NEW, [bound], NOW_MS)
    may_join(enrolment(), NEW, [key("other", kind=KeyKind.NODE, node_id="gpu-8")], NOW_MS)
    may_join(enrolment(), NEW, [msgspec.structs.replace(bound, revoked_ms=1)], NOW_MS)


def test_a_node_that_asks_again_gets_what_it_has() -> None:
    allowed = enrolment()
    made = joined_node(allowed)
    assert joined_before(allowed, NEW, [made], NOW_MS) == made
    assert joined_before(key("another", kind=KeyKind.ENROLMENT, tenant="acme"), NEW, [made], NOW_MS) == made
    assert joined_before(allowed, Newcomer("c" * 64, "gpu-7"), [made], NOW_MS) is None
    # What is of another tenant is as if it were not there.
    foreign = key("foreign", kind=KeyKind.ENROLMENT, tenant="beta")
    assert joined_before(foreign, NEW, [made], NOW_MS) is None


def test_a_node_that_expired_may_join_again_and_a_banned_one_may_not() -> None:
    allowed = enrolment()
    assert joined_before(allowed, NEW, [joined_node(allowed, expires_ms=NOW_MS)], NOW_MS) is None
    with pytest.raises(EnrolmentRefused, match="banned"):
        joined_before(allowed, NEW, [joined_node(allowed, revoked_ms=NOW_MS)], NOW_MS)


def test_a_key_ends_soon_after_its_last_node_has_joined() -> None:
    assert after(enrolment(), [], NOW_MS) == enrolment()
    limited = enrolment(max_nodes=2)
    assert after(limited, [], NOW_MS) == limited
    one = joined_node(limited)
    assert after(limited, [one], NOW_MS).expires_ms == NOW_MS + USED_UP_MS
    assert after(enrolment(max_nodes=2, expires_ms=NOW_MS + 1), [one], NOW_MS).expires_ms == NOW_MS + 1


def test_a_node_is_private_if_the_key_it_joins_with_is() -> None:
    assert joined_node(enrolment(is_private=True)).is_private
    assert not joined_node(enrolment()).is_private
