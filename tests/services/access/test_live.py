"""Callers that stay are closed when their credential ends."""

import pytest

from lingua_scheduler.domain.access.key_texts import KeyKind
from lingua_scheduler.domain.access.principals import LOCAL, Denied, Principal
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access.doorkeeper import Shown, Via, Visit
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.services.attempts.peers import CloseCode, code_for
from tests.support.access import FakeBook, MadeKey, Times, doorkeeper_of, made_key


class Scene:
    def __init__(self, *keys: MadeKey, grace_ms: int = 5_000) -> None:
        self.times = Times()
        self.book = FakeBook(*keys)
        self.keeper = doorkeeper_of(self.book, self.times, expired_grace_ms=grace_ms)
        self.live = LiveCallers(self.keeper)
        self.ended: list[tuple[str, CloseCode]] = []

    def enter(self, key: MadeKey, name: str) -> int:
        found = self.keeper.admit(
            Shown(key.text, Via.HEADER), Visit("203.0.113.7", None, False), (Scope.SESSION_OPEN, Scope.NODE_REGISTER)
        )
        assert isinstance(found, Principal)
        return self.live.enter(found, lambda denied: self.end(name, denied))

    def end(self, name: str, denied: Denied) -> None:
        assert len(denied.detail.encode()) <= 123  # a close frame has no room for more
        self.ended.append((name, code_for(denied)))


async def test_a_revoked_key_closes_all_its_connections_and_no_other() -> None:
    gone, stays = made_key(KeyKind.CLIENT), made_key(KeyKind.NODE)
    scene = Scene(gone, stays)
    for key, name in ((gone, "a"), (stays, "b"), (gone, "c")):
        scene.enter(key, name)
    await scene.live.look()
    scene.live.look_at_all()
    assert scene.ended == []
    scene.book.change(gone, revoked_ms=1)
    scene.live.look_at_all()
    assert scene.ended == [("a", CloseCode.REVOKED), ("c", CloseCode.REVOKED)]
    scene.live.look_at_all()
    assert len(scene.ended) == 2
    assert len(scene.live) == 1


async def test_an_expired_key_closes_after_the_grace_without_any_change() -> None:
    times = Times()
    key = made_key(KeyKind.CLIENT, expires_ms=times.wall_ms() + 1_000)
    scene = Scene(key)
    scene.enter(key, "a")
    scene.times.now_s += 5.9
    await scene.live.look()
    assert scene.ended == []
    scene.times.now_s += 0.1
    await scene.live.look()
    assert scene.ended == [("a", CloseCode.EXPIRED)]


async def test_an_end_that_was_set_later_is_kept() -> None:
    key = made_key(KeyKind.CLIENT)
    scene = Scene(key, grace_ms=0)
    scene.enter(key, "a")
    scene.book.change(key, expires_ms=scene.times.wall_ms() + 2_000)
    scene.live.look_at_all()
    await scene.live.look()
    assert scene.ended == []
    scene.times.now_s += 2
    await scene.live.look()
    assert scene.ended == [("a", CloseCode.EXPIRED)]


async def test_who_has_left_is_not_closed() -> None:
    key = made_key(KeyKind.CLIENT)
    scene = Scene(key)
    scene.live.leave(scene.enter(key, "a"))
    with pytest.raises(RuntimeError), scene.live.present(LOCAL, lambda _: None):
        raise RuntimeError
    scene.book.change(key, revoked_ms=1)
    scene.live.look_at_all()
    assert scene.ended == []
    assert len(scene.live) == 0


async def test_who_needs_no_credential_is_not_kept() -> None:
    scene = Scene()
    assert scene.live.enter(LOCAL, lambda _: None) == 0
    assert len(scene.live) == 0


async def test_connections_that_come_and_go_leave_nothing_behind() -> None:
    key = made_key(KeyKind.CLIENT, expires_ms=2**50)
    scene = Scene(key)
    for number in range(10_000):
        scene.live.leave(scene.enter(key, str(number)))
    assert len(scene.live._due) < 2_000


async def test_one_who_leaves_while_another_is_closed_is_no_error() -> None:
    key = made_key(KeyKind.CLIENT)
    scene = Scene(key)
    tickets: list[int] = []
    found = scene.keeper.admit(Shown(key.text, Via.HEADER), Visit("", None, False), (Scope.SESSION_OPEN,))
    assert isinstance(found, Principal)

    def end(_: Denied) -> None:
        scene.ended.append(("x", CloseCode.REVOKED))
        for ticket in tickets:
            scene.live.leave(ticket)

    tickets += [scene.live.enter(found, end), scene.live.enter(found, end)]
    scene.book.change(key, revoked_ms=1)
    scene.live.look_at_all()
    assert len(scene.ended) == 1


async def test_a_newer_credential_counts_from_when_it_is_shown() -> None:
    times = Times()
    short = made_key(KeyKind.CLIENT, expires_ms=times.wall_ms() + 1_000)
    longer = made_key(KeyKind.CLIENT, expires_ms=times.wall_ms() + 60_000)
    scene = Scene(short, longer, grace_ms=0)
    ticket, other = scene.enter(short, "a"), scene.enter(longer, "b")
    scene.live.renew(ticket, scene.live._here[other][0])
    scene.times.now_s += 59
    await scene.live.look()
    scene.live.look_at_all()
    assert scene.ended == []
    scene.times.now_s += 1
    await scene.live.look()
    assert sorted(scene.ended) == [("a", CloseCode.EXPIRED), ("b", CloseCode.EXPIRED)]
    # It has left, and does not come back.
    scene.live.renew(ticket, LOCAL)
    assert not len(scene.live)


async def test_what_was_shown_before_no_longer_matters_when_it_is_revoked() -> None:
    former, later = made_key(KeyKind.CLIENT), made_key(KeyKind.CLIENT)
    scene = Scene(former, later)
    ticket, other = scene.enter(former, "a"), scene.enter(later, "b")
    scene.live.renew(ticket, scene.live._here[other][0])
    scene.book.change(former, revoked_ms=1)
    scene.live.look_at_all()
    assert scene.ended == []
    scene.book.change(later, revoked_ms=1)
    scene.live.look_at_all()
    assert scene.ended == [("a", CloseCode.REVOKED), ("b", CloseCode.REVOKED)]
