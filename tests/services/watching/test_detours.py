"""The pairs that the ladder serves, as the picture tells them."""

from lingua_scheduler.domain.pools.ladder import LadderRules
from lingua_scheduler.domain.pools.selection import PoolMap
from lingua_scheduler.domain.watching.detours import MAX_DETOURS
from lingua_scheduler.services.watching.detours import Detours


async def test_they_are_looked_up_once_for_each_map() -> None:
    maps = [PoolMap({"zh:en:text": {0: 1}, "text/en:ja:speech": {0: 1}})]
    detours = Detours(lambda: maps[-1], LadderRules(("en",)))
    found = await detours.look()
    assert [(one.src, one.tgt, one.rung, one.pivot) for one in found] == [("zh", "ja", "pivot", "en")]
    assert await detours.look() is found
    # A node that serves the pair alone has come.
    maps.append(PoolMap({"zh:ja:speech": {0: 1}, "zh:en:text": {0: 1}, "text/en:ja:speech": {0: 1}}))
    assert await detours.look() == []


async def test_they_are_bounded() -> None:
    codes = [f"{one}{other}" for one in "abcdef" for other in "abcdef"]
    pools = {f"{code}:en:text": {0: 1} for code in codes} | {f"text/en:{code}:speech": {0: 1} for code in codes}
    assert len(await Detours(lambda: PoolMap(pools), LadderRules(("en",))).look()) == MAX_DETOURS
