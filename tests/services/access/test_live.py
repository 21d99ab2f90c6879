"""Callers that stay are closed when their credential ends."""

import msgspec
import pytest

from lingua_scheduler.domain.access.principals import LOCAL, Denied, Principal, PrincipalKind
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.services.access.visits import Shown, Via, Visit
from lingua_scheduler.services.attempts.peers import CloseCode, code_for
from lingua_sdk.domain.key_texts import KeyKind
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


def holder_of_token(times: Times, *, ends_in_ms: int = 1_000, is_refreshing: bool = False) -> Principal:
    return Principal(
        kind=PrincipalKind.CLIENT,
        scopes=frozenset({Scope.SESSION_OPEN}),
        subject="ada",
        expires_ms=times.wall_ms() + ends_in_ms,
        is_refreshing=is_refreshing,
    )


@pytest.mark.parametrize(
    ("is_refreshing", "grace_ms", "ends_after_ms"),
    [(False, 3_600_000, 3_600_000), (True, 3_600_000, 25_000), (True, 5_000, 5_000)],
)
async def test_a_client_that_refreshes_outlives_its_token_for_a_shorter_time(
    is_refreshing: bool, grace_ms: int, ends_after_ms: int
) -> None:
    scene = Scene(grace_ms=grace_ms)
    principal = holder_of_token(scene.times, is_refreshing=is_refreshing)
    scene.live.enter(principal, lambda denied: scene.end("a", denied))
    scene.times.now_s += 1 + ends_after_ms / 1000 - 0.001
    await scene.live.look()
    scene.live.look_at_all()
    assert scene.ended == []
    scene.times.now_s += 0.001
    await scene.live.look()
    assert scene.ended == [("a", CloseCode.EXPIRED)]


async def test_the_end_of_the_key_that_minted_its_token_has_the_long_grace_for_it_too() -> None:
    times = Times()
    key = made_key(KeyKind.SERVICE, expires_ms=times.wall_ms() + 1_000)
    scene = Scene(key, grace_ms=3_600_000)
    principal = msgspec.structs.replace(
        holder_of_token(times, ends_in_ms=86_400_000, is_refreshing=True), key_id=key.credential.id
    )
    scene.live.enter(principal, lambda denied: scene.end("a", denied))
    scene.times.now_s += 60
    await scene.live.look()
    assert scene.ended == []
    scene.times.now_s += 3_600
    await scene.live.look()
    assert scene.ended == [("a", CloseCode.EXPIRED)]


async def test_a_caller_that_renews_its_token_without_end_fills_no_list() -> None:
    scene = Scene(grace_ms=0)
    ticket = scene.live.enter(holder_of_token(scene.times), lambda denied: scene.end("a", denied))
    for number in range(5_000):
        scene.live.renew(ticket, holder_of_token(scene.times, ends_in_ms=2_000 + number))
    assert len(scene.live._due) == 1
    for seconds in (1.0, 5.9):
        scene.times.now_s += seconds
        await scene.live.look()
        assert (scene.ended, len(scene.live._due)) == ([], 1)
    # A shorter one counts at once.
    scene.live.renew(ticket, holder_of_token(scene.times, ends_in_ms=10))
    scene.times.now_s += 0.01
    await scene.live.look()
    assert scene.ended == [("a", CloseCode.EXPIRED)]
    scene.times.now_s += 60
    await scene.live.look()
    assert len(scene.ended) == 1
