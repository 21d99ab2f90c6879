"""The leader signs the head of the audit log after enough entries or enough time, if nothing is wrong with it."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.access.audit import AuditEntry, AuditHead, AuditNote
from lingua_scheduler.domain.access.audit_anchors import Anchor, statement
from lingua_scheduler.services.access.anchoring import ANCHOR_S, AnchorMemory, Anchors
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store.store import Store
from tests.support.audits import ACTOR, KEYS, OTHER_KEYS
from tests.support.servers import RedisProcess

NOTE = AuditNote(actor=ACTOR, action="nodes.drain", object="n1")
EVERY = 10


class Scene:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.now_s = 0.0
        self.is_leading = True
        self.auditor = Auditor(store.audit, KEYS, "i-1")
        self.anchors = Anchors(store.audit, KEYS, EVERY, lambda: self.is_leading, clock=lambda: self.now_s)

    async def write(self, count: int) -> AuditEntry:
        for _ in range(count):
            entry = await self.auditor.write(NOTE)
        return entry

    async def look(self) -> list[Any]:
        with capture_logs() as logged:
            await self.anchors.look()
        return [event for event in logged if event["event"].startswith("audit.")]


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)


async def test_after_enough_entries_the_head_is_signed(scene: Scene) -> None:
    assert await scene.look() == []
    await scene.write(EVERY - 2)
    assert await scene.look() == []
    last = await scene.write(1)
    (event,) = await scene.look()
    assert (event["event"], event["seq"], event["hash"]) == ("audit.anchor", EVERY, last.hash)
    assert KEYS.is_signed(event["key"], statement(last.head), event["signature"])
    assert await scene.look() == []
    await scene.write(EVERY - 1)
    assert await scene.look() == []


async def test_after_enough_time_even_one_entry_is_signed(scene: Scene) -> None:
    await scene.look()
    scene.now_s += 10 * ANCHOR_S
    await scene.look()
    await scene.write(1)
    scene.now_s += ANCHOR_S - 1
    assert await scene.look() == []
    scene.now_s += 1
    assert [event["seq"] for event in await scene.look()] == [2]
    scene.now_s += ANCHOR_S
    assert await scene.look() == []


async def test_only_the_leader_signs(scene: Scene) -> None:
    scene.is_leading = False
    await scene.write(EVERY)
    assert await scene.look() == []
    with capture_logs() as logged:
        await scene.anchors.finish()
    assert logged == []


async def test_a_leader_that_stops_signs_what_is_left(scene: Scene) -> None:
    await scene.write(1)
    with capture_logs() as logged:
        await scene.anchors.finish()
        await scene.anchors.finish()
    assert [(event["event"], event["seq"]) for event in logged] == [("audit.anchor", 2)]


@pytest.mark.expects_surprise("audit.broken")
async def test_what_was_tampered_with_since_the_last_anchor_is_not_signed(scene: Scene) -> None:
    await scene.write(EVERY)
    await scene.look()
    await scene.write(EVERY)
    await scene.store.line.call("XDEL", scene.store.keys.audit_log, "15-0")
    (event,) = await scene.look()
    assert (event["event"], event["seq"], event["fault"]) == ("audit.broken", 15, "missing")
    # It is told once, and later entries are signed again.
    assert await scene.look() == []
    await scene.write(EVERY)
    assert [event["event"] for event in await scene.look()] == ["audit.anchor"]


@pytest.mark.expects_surprise("audit.broken")
async def test_a_head_that_no_entry_has_is_not_signed(scene: Scene) -> None:
    await scene.write(EVERY)
    await scene.store.line.call("SET", scene.store.keys.audit_head, f"500 {'ab' * 32}")
    assert [event["event"] for event in await scene.look()] == ["audit.broken"]


async def test_a_new_chain_after_a_loss_is_told_and_signed(scene: Scene, server: RedisProcess) -> None:
    await scene.write(EVERY)
    await scene.look()
    server.flush()
    await scene.write(EVERY)
    lost, signed = await scene.look()
    assert (lost["event"], lost["until"]) == ("audit.lost", EVERY + 1)
    assert (signed["event"], signed["seq"]) == ("audit.anchor", 2 * EVERY + 2)


async def test_a_long_way_between_two_anchors_is_checked_page_by_page(scene: Scene) -> None:
    await scene.write(EVERY)
    await scene.look()
    await scene.write(1_100)
    assert [event["event"] for event in await scene.look()] == ["audit.anchor"]


async def test_entries_of_a_key_that_the_leader_lacks_are_told_and_not_signed(scene: Scene) -> None:
    await Auditor(scene.store.audit, OTHER_KEYS, "i-2").write(NOTE)
    scene.now_s += ANCHOR_S
    assert [event["event"] for event in await scene.look()] == ["audit.unverified"]


async def test_the_furthest_anchor_is_kept_in_a_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "credentials.audit-anchor"
    memory = AnchorMemory(path)
    assert memory.read() is None
    auditor = Auditor(store.audit, KEYS, "i-1")
    anchors = Anchors(store.audit, KEYS, 1, lambda: True, memory)
    for _ in range(3):
        last = await auditor.write(NOTE)
    await anchors.look()
    kept = memory.read()
    assert kept is not None
    assert kept.head == last.head
    assert KEYS.is_signed(kept.key_id, statement(kept.head), kept.signature)
    assert path.stat().st_mode & 0o077 == 0
    # A shorter log, as after a loss, does not hide that there was a longer one.
    await memory.keep(Anchor(AuditHead(1, "0" * 64), kept.key_id, kept.signature))
    assert memory.read() == kept
    await memory.keep(Anchor(AuditHead(9, "0" * 64), kept.key_id, kept.signature))
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert (memory.read() or kept).head.seq == 9


async def test_a_memory_that_cannot_be_written_is_told_and_stops_nothing(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = AnchorMemory(tmp_path / "file" / "anchor")
    with capture_logs() as logged:
        await memory.keep(Anchor(AuditHead(1, "0" * 64), "k", "s"))
    assert [event["event"] for event in logged] == ["audit.anchor_unwritten"]
