"""Languages that are asked for under another name than they are served."""

from functools import partial
from typing import Any, cast

import msgspec
import pytest

from lingua_scheduler.domain.pools.lanes import Lanes, Whose, lanes_of
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.domain.sessions.utterances import CutReason
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.services.dispatch import languages
from lingua_scheduler.services.dispatch.idempotency import payload_of
from lingua_scheduler.services.dispatch.languages import ANY_TENANT, LanguageLookup
from lingua_scheduler.store.connection import RedisAway

ASKED = Terms("en-US", "pt-BR", features={"emotion_detection": True})
WORK = Work("s", 0, ASKED, ASKED.pools(), b"", "pcm16", 16_000, 0, "t", "turn", CutReason.IS_FINAL, 0)


class Copy:
    """A copy of the pool map, and what it will be after another look."""

    def __init__(self, *pools: str) -> None:
        self.map = self.after = PoolMap({pool: {0: 1} for pool in pools})
        self.looks = 0
        self.is_away = False
        self.private_only: tuple[str, ...] = ()

    @property
    def has_private(self) -> bool:
        return bool(self.map.private or self.private_only)

    def lanes(self, whose: Whose) -> Lanes:
        return lanes_of(whose, self.map, self.private_only)

    def becomes(self, *pools: str) -> None:
        self.after = PoolMap({pool: {0: 1} for pool in pools})

    async def look_again(self) -> None:
        self.looks += 1
        if self.is_away:
            raise RedisAway("gone")
        self.map = self.after


def lookup_in(copy: Copy) -> LanguageLookup:
    return LanguageLookup(cast("Any", copy), cast("Any", None))


async def test_what_is_served_as_it_is_asked_for_stays_the_same_value() -> None:
    copy = Copy("en-US:pt-BR:speech", "en:pt:speech")
    assert await lookup_in(copy).matched(WORK) is WORK
    assert copy.looks == 0


async def test_work_gets_the_tags_of_its_nodes_and_keeps_those_that_were_asked_for() -> None:
    found = await lookup_in(Copy("en:pt:speech")).matched(WORK)
    assert (found.terms.src_lang, found.terms.tgt_lang, found.pools) == ("en", "pt", ("en:pt:speech",))
    assert found.terms.features == ASKED.features
    assert found.asked == ASKED
    # A repeat of the request is the same request, whatever serves it by then.
    assert payload_of(found) == payload_of(WORK)
    assert payload_of(found) != payload_of(msgspec.structs.replace(WORK, terms=found.terms))


async def test_a_node_that_came_a_moment_ago_is_found() -> None:
    copy = Copy()
    lookup = lookup_in(copy)
    assert lookup.used(ASKED) is None
    copy.becomes("en:pt:speech")
    assert (await lookup.matched(WORK)).pools == ("en:pt:speech",)
    assert copy.looks == 1


async def test_an_exact_tag_wins_as_soon_as_a_node_serves_it() -> None:
    copy = Copy("en:pt:speech")
    lookup = lookup_in(copy)
    assert (await lookup.matched(WORK)).pools == ("en:pt:speech",)
    copy.map = PoolMap({"en:pt:speech": {0: 1}, "en-US:pt:speech": {0: 1}})
    assert (await lookup.matched(WORK)).pools == ("en-US:pt:speech",)


async def test_nodes_that_are_away_for_a_moment_are_waited_for_under_their_name() -> None:
    copy = Copy("en:pt:speech")
    lookup = lookup_in(copy)
    await lookup.matched(WORK)
    copy.map = copy.after = PoolMap({})
    assert (await lookup.matched(WORK)).pools == ("en:pt:speech",)


async def test_what_nobody_serves_stays_as_it_was_also_while_redis_is_away() -> None:
    copy = Copy("en:es:speech")
    assert await lookup_in(copy).matched(WORK) is WORK
    copy.is_away = True
    assert await lookup_in(copy).matched(WORK) is WORK


def test_a_pool_that_is_wanted_is_the_one_that_serves_it() -> None:
    lookup = lookup_in(Copy("en:pt:speech"))
    assert lookup.nearest("en-US:pt:speech") == lookup.nearest("en:pt:speech") == "en:pt:speech"
    assert lookup.nearest("en:ko:speech") == "en:ko:speech"


class Why:
    async def unserved(self, pools: tuple[str, ...], _whose: Whose) -> str:
        return f"nobody serves {pools[0]}" if pools != ("en:de:speech",) else ""


async def test_terms_are_unserved_in_every_spelling_or_not_at_all() -> None:
    lookup = LanguageLookup(cast("Any", Copy("en:pt:speech")), cast("Any", Why()))
    assert await lookup.unserved(ASKED) is None
    assert await lookup.unserved(Terms("en", "fr")) == "nobody serves en:fr:speech"
    # Redis cannot say.
    assert await lookup.unserved(Terms("en", "de")) is None


async def test_matches_are_remembered_for_one_map_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "REMEMBERED_MAX", 2)
    copy = Copy("en:pt:speech")
    lookup = lookup_in(copy)
    for tag in ("en-US", "en-GB", "en-AU"):
        found = lookup.used(Terms(tag, "pt"))
        assert found is not None
        await lookup.matched(msgspec.structs.replace(WORK, terms=Terms(tag, "pt"), pools=(f"{tag}:pt:speech",)))
    assert (len(lookup._found), len(lookup._latest)) == (1, 1)
    copy.map = PoolMap({})
    assert lookup.used(Terms("en-AU", "pt")) is None


async def test_pools_are_found_under_the_tags_of_nodes_also_those_of_text() -> None:
    copy = Copy("en:pt:speech", "text/en:pt-BR:text")
    found = partial(lookup_in(copy).find, whose=ANY_TENANT)
    assert found(Pool("en-US", "pt", "speech")) == Pool("en", "pt", "speech")
    assert found(Pool.from_text("en-US", "pt", "text")) == Pool.from_text("en", "pt-BR", "text")
    assert found(Pool.from_text("en", "zh", "text")) is None
    copy.is_away = True
    await lookup_in(copy).look_again()


async def test_pools_of_private_nodes_are_found_for_their_tenant_alone() -> None:
    copy = Copy("en:pt-BR:text", "text/en:pt:text@acme", "en:pt:text@acme")
    find, text = lookup_in(copy).find, Pool.from_text("en-US", "pt", "text")
    assert find(text, Whose("acme")) == Pool.from_text("en", "pt", "text")
    assert find(text, Whose("beta")) is None
    # Served as it was asked for by public nodes is better than another spelling of private ones.
    asked = Pool("en", "pt-BR", "text")
    assert find(asked, Whose("acme")) == asked
    assert find(asked, Whose("acme", is_private_only=True)) == Pool("en", "pt", "text")
    assert find(Pool("en", "pt", "text"), Whose("beta")) == asked
    copy.private_only = ("beta",)
    assert find(asked, Whose("beta")) is None


async def test_private_nodes_serve_their_tenant_and_no_other() -> None:
    copy = Copy("en-US:pt-BR:text", "en:pt:speech@acme")
    lookup, of_acme = lookup_in(copy), msgspec.structs.replace(WORK, belongs_to="x", tenant_id="acme")
    assert (await lookup.matched(of_acme)).pools == ("en:pt:speech",)
    of_beta = msgspec.structs.replace(of_acme, tenant_id="beta")
    assert await lookup.matched(of_beta) is of_beta
    # What a caller without a credential names as its tenant proves nothing.
    named = msgspec.structs.replace(WORK, tenant_id="acme")
    assert await lookup.matched(named) is named
    assert lookup.used(ASKED, Whose("beta")) is None
    assert lookup.is_served_privately(("en:pt:speech",), Whose("acme"))
    assert not lookup.is_served_privately(("en:pt:speech",), Whose("beta"))
    assert not lookup.is_served_privately(("en:pt:text",), Whose("acme"))


async def test_public_nodes_do_not_serve_a_tenant_that_has_private_ones_only() -> None:
    copy = Copy("en-US:pt-BR:speech")
    copy.private_only = ("acme",)
    lookup, of_acme = lookup_in(copy), msgspec.structs.replace(WORK, belongs_to="x", tenant_id="acme")
    assert not lookup.is_served(of_acme)
    assert lookup.used(ASKED, Whose("acme")) is None
    assert lookup.is_served(WORK)
    assert lookup.is_served_privately(WORK.pools, Whose("acme"))
