"""Pairing: who gets a code for which node, and what a wrong code costs."""

from unittest.mock import AsyncMock

import pytest

from lingua_scheduler.domain.access.principals import Principal, PrincipalKind
from lingua_scheduler.services.nodes.pairings import Pairings, Unpaired, WrongCode
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.pairing import MISSES_PER_MIN, Pairing
from tests.support.connected import Ear, connected_to, registered

OWNER = Principal(
    kind=PrincipalKind.NODE, scopes=frozenset(), tenant="acme", key_id="k", node_id="own", is_private=True
)


@pytest.fixture
async def pairings(store: Store) -> Pairings:
    connected = connected_to(store)
    peer = Ear()
    peer.principal = OWNER
    await registered(connected, peer, node_id="own")
    await registered(connected, Ear(), link_id="c2", node_id="public")
    return Pairings(store, lambda: 0.0)


async def code_for(pairings: Pairings, node_id: str = "own") -> str:
    code = await pairings.make(node_id)
    assert isinstance(code, str)
    return code


async def test_a_private_node_has_codes_and_each_is_for_one_session(pairings: Pairings) -> None:
    code = await code_for(pairings)
    assert await pairings.redeem(code.lower(), "") == Pairing("acme", "own")
    with pytest.raises(WrongCode):
        await pairings.redeem(code, "")


async def test_other_nodes_have_none(pairings: Pairings) -> None:
    assert await pairings.make("public") is Unpaired.PUBLIC
    assert await pairings.make("nowhere") is Unpaired.UNKNOWN


@pytest.mark.parametrize("text", [None, "", "  ", "1234", "any text that a person types"])
async def test_any_other_text_is_ignored_and_costs_nothing(pairings: Pairings, text: str | None) -> None:
    for _ in range(3 * MISSES_PER_MIN):
        assert await pairings.redeem(text, "address") is None
    assert await pairings.redeem(await code_for(pairings), "address") is not None


async def test_after_five_misses_of_an_address_not_even_a_right_code_is_looked_up(
    store: Store, pairings: Pairings, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = await code_for(pairings)
    for _ in range(MISSES_PER_MIN):
        with pytest.raises(WrongCode, match="unknown"):
            await pairings.redeem("AAAAAAAA", "address")
    with monkeypatch.context() as patch:
        patch.setattr(store.pairings, "take", looked_up := AsyncMock())
        with pytest.raises(WrongCode, match="wait a minute"):
            await pairings.redeem(right, "address")
    assert not looked_up.called
    # Others are not kept from theirs.
    assert await pairings.redeem(right, "elsewhere") is not None


async def test_a_minute_later_it_may_try_again(store: Store) -> None:
    now_s = [0.0]
    pairings = Pairings(store, lambda: now_s[0])
    for _ in range(MISSES_PER_MIN + 1):
        with pytest.raises(WrongCode):
            await pairings.redeem("AAAAAAAA", "address")
    now_s[0] += 60.0
    with pytest.raises(WrongCode, match="unknown"):
        await pairings.redeem("AAAAAAAA", "address")
