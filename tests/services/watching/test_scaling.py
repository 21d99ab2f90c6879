"""Questions about the wanted slots: each is answered once for each picture, and a tenant is told less."""

from typing import Any, cast

from lingua_scheduler.domain.watching.pair_work import PairDemand, ScalingLook
from lingua_scheduler.services.watching import scaling
from lingua_scheduler.services.watching.scaling import ScalingDesk
from tests.support.pictures import after, node, picture


def demand(src: str, tgt: str, load: float) -> PairDemand:
    figures: dict[str, Any] = {"arrivals_per_s": 1.0, "node_s_per_job": 1.0, "real_time_factor": None, "waiting": 0}
    return PairDemand(src=src, tgt=tgt, load=load, **figures)


LOOK = ScalingLook(is_settled=True, headroom=1.5, pairs=[demand("en", "zh", 4.0), demand("xx", "yy", 1.0)])


class OneSnapshot:
    def __init__(self) -> None:
        self.latest = picture(nodes=[node()], scaling=LOOK)

    async def read(self) -> object:
        return self.latest


async def test_the_same_question_about_the_same_picture_is_answered_once() -> None:
    shown = OneSnapshot()
    desk = ScalingDesk(cast("Any", shown))
    first = await desk.read()
    assert (first.wanted_slots, await desk.read()) == (10, first)
    assert await desk.read() is first
    assert await desk.read(("en:zh", "zh:en")) is await desk.read(("zh:en", "en:zh", "zh:en"))
    shown.latest = after(shown.latest, scaling=ScalingLook(is_settled=True, headroom=1.5))
    assert (await desk.read()).wanted_slots == 0


async def test_a_tenant_is_not_told_of_pairs_that_no_node_serves() -> None:
    desk = ScalingDesk(cast("Any", OneSnapshot()))
    assert [one.src for one in (await desk.read()).pairs] == ["en", "xx"]
    assert [one.src for one in (await desk.read(tenant="acme")).pairs] == ["en"]


def test_few_answers_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr(scaling, "REMEMBERED", 2)
    desk = ScalingDesk(cast("Any", OneSnapshot()))
    for number in range(5):
        desk.of(picture(serial=number))
    assert len(desk._answers) == 2
