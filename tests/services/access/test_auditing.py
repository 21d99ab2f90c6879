"""Writers of the audit log: one unbroken chain, also after Redis lost its data."""

import asyncio

import pytest

from lingua_scheduler.domain.access.audit import (
    AuditAction,
    AuditEntry,
    AuditHead,
    AuditNote,
    AuditOutcome,
    canonical,
    read_entry,
)
from lingua_scheduler.domain.access.audit_check import AuditFaultKind, AuditVerdict, verify
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.domain.access.principals import LOCAL, Principal, PrincipalKind
from lingua_scheduler.services.access import auditing
from lingua_scheduler.services.access.auditing import Auditor, start_note
from lingua_scheduler.setting_sections.access import AuditSettings
from lingua_scheduler.setting_sections.redis import RedisSettings
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.audits import ACTOR, KEYS, anchor
from tests.support.clocks import Clock
from tests.support.servers import RedisProcess

OPERATOR = Principal(kind=PrincipalKind.OPERATOR, scopes=frozenset(), key_id="abcdefghijkl", tenant="acme")
NOTE = AuditNote(actor=ACTOR, action="nodes.drain", object="n1")
DAY_MS = 86_400_000


def auditor(store: Store, name: str = "i-1", keys: AuditKeys = KEYS) -> Auditor:
    return Auditor(store.audit, keys, name)


async def entries_of(store: Store) -> list[AuditEntry]:
    texts, after = await store.audit.page()
    while after:
        more, after = await store.audit.page(after)
        texts += more
    found = [read_entry(text) for text in texts]
    assert None not in found
    return [entry for entry in found if entry is not None]


async def verdict_of(store: Store, *anchors: AuditHead, keys: AuditKeys = KEYS) -> AuditVerdict:
    head = await store.audit.head()
    texts, after = await store.audit.page()
    while after:
        more, after = await store.audit.page(after)
        texts += more
    return verify(texts, keys, [anchor(one, keys) for one in anchors], head)


async def test_an_entry_says_who_did_what_to_what_from_where(store: Store) -> None:
    written = await auditor(store).note(
        OPERATOR, "10.0.0.1", "keys.create", "k1", AuditOutcome.REQUESTED, {"kind": "node"}, "r-1"
    )
    begun, entry = await entries_of(store)
    assert entry == written
    assert (begun.action, begun.seq, begun.values) == (AuditAction.CHAIN_BEGUN, 1, {"last_seq": 0, "last_hash": ""})
    assert (str(entry.actor), entry.actor.tenant) == ("operator:abcdefghijkl@10.0.0.1", "acme")
    assert (entry.action, entry.object, entry.outcome) == ("keys.create", "k1", AuditOutcome.REQUESTED)
    assert (entry.values, entry.request_id, entry.writer) == ({"kind": "node"}, "r-1", "i-1")
    assert (await verdict_of(store)).is_good


async def test_a_burst_of_writers_on_three_instances_gives_one_unbroken_chain(
    store: Store, server: RedisProcess
) -> None:
    others = [Store(server.url, key_prefix="lingua:v1", timeout_ms=30_000) for _ in range(2)]
    for other in others:
        await other.open()
    writers = [auditor(one, f"i-{number}") for number, one in enumerate((store, *others))]
    notes = [
        writer.note(LOCAL, "", "nodes.drain", f"{number}-{each}")
        for each in range(60)
        for number, writer in enumerate(writers)
    ]
    await asyncio.gather(*notes)
    entries = await entries_of(store)
    assert [entry.seq for entry in entries] == list(range(1, 182))
    assert len({entry.object for entry in entries}) == 181
    assert {entry.writer for entry in entries[1:]} == {"i-0", "i-1", "i-2"}
    assert [entry.action for entry in entries].count(AuditAction.CHAIN_BEGUN) == 1
    assert (await verdict_of(store)).is_good
    for other in others:
        await other.close()


async def test_a_writer_that_starts_later_continues_the_chain(store: Store) -> None:
    await auditor(store).write(NOTE)
    later = await auditor(store, "i-2").write(NOTE)
    assert later.seq == 3
    assert (await verdict_of(store)).is_good


async def test_after_redis_was_emptied_the_chain_goes_on_and_says_what_is_missing(
    store: Store, server: RedisProcess
) -> None:
    writer = auditor(store)
    for _ in range(4):
        last = await writer.write(NOTE)
    server.flush()
    await writer.write(NOTE)
    begun, entry = await entries_of(store)
    assert (begun.seq, begun.action) == (6, AuditAction.CHAIN_BEGUN)
    assert begun.values == {"last_seq": 5, "last_hash": last.hash}
    assert entry.seq == 7
    verdict = await verdict_of(store, last.head)
    assert [(fault.kind, fault.seq, fault.until) for fault in verdict.faults] == [(AuditFaultKind.LOST, 1, 5)]


async def test_if_no_instance_remembers_an_anchor_tells_what_is_missing(store: Store, server: RedisProcess) -> None:
    for _ in range(4):
        last = await auditor(store).write(NOTE)
    server.flush()
    await auditor(store, "i-2").write(NOTE)
    assert (await verdict_of(store)).is_good
    verdict = await verdict_of(store, last.head)
    assert [(fault.kind, fault.seq, fault.until) for fault in verdict.faults] == [(AuditFaultKind.MISSING, 3, 5)]


async def test_what_others_wrote_is_learned_by_looking_and_remembered(store: Store, server: RedisProcess) -> None:
    watcher = auditor(store, "i-2")
    for _ in range(4):
        last = await auditor(store).write(NOTE)
    await watcher.look()
    server.flush()
    entry = await watcher.write(NOTE)
    assert entry.seq == last.seq + 2


async def test_a_head_that_went_back_begins_a_new_chain(store: Store) -> None:
    """As after a failover that lost the last writes, or by one who cut the tail and set the head back."""
    writer = auditor(store)
    written = [await writer.write(NOTE) for _ in range(4)]
    call = store.line.call
    await call("SET", store.keys.audit_head, str(written[1].head))
    await call("DEL", store.keys.audit_log)
    await call("XADD", store.keys.audit_log, "3-0", "entry", canonical(written[1]))
    entry = await writer.write(NOTE)
    assert entry.seq == 7
    faults = (await verdict_of(store)).faults
    assert (faults[-1].kind, faults[-1].seq, faults[-1].until) == (AuditFaultKind.LOST, 4, 5)


async def test_another_head_with_the_same_number_begins_a_new_chain(store: Store) -> None:
    writer = auditor(store)
    last = await writer.write(NOTE)
    await store.line.call("SET", store.keys.audit_head, f"{last.seq} {'ab' * 32}")
    await writer.write(NOTE)
    assert [entry.action for entry in await entries_of(store)][2:] == [AuditAction.CHAIN_BEGUN, NOTE.action]
    assert (await verdict_of(store)).is_good


@pytest.mark.parametrize("head", ["", "rubbish", "0 x"])
async def test_a_log_without_its_head_goes_on_with_higher_numbers(store: Store, head: str) -> None:
    for _ in range(3):
        await auditor(store).write(NOTE)
    await store.line.call("SET", store.keys.audit_head, head)
    entry = await auditor(store, "i-2").write(NOTE)
    assert entry.seq == 6
    assert [fault.kind for fault in (await verdict_of(store)).faults] == [AuditFaultKind.LOST]


async def test_a_number_that_cannot_be_passed_is_told(store: Store) -> None:
    await store.line.call("XADD", store.keys.audit_log, f"{2**64 - 1}-0", "entry", "x")
    with pytest.raises(RedisAway, match="without a number"):
        await auditor(store).write(NOTE)


@pytest.mark.expects_surprise("redis.down")
async def test_without_redis_a_note_fails_and_the_next_one_is_written(server: RedisProcess, store: Store) -> None:
    writer = auditor(store)
    await writer.write(NOTE)
    server.kill()
    with pytest.raises(RedisAway):
        await asyncio.wait_for(_until_away(writer), 60)
    server.start()
    entry = await _until_written(writer)
    assert entry.seq >= 3


async def _until_away(writer: Auditor) -> None:
    while True:
        await writer.write(NOTE)


async def _until_written(writer: Auditor) -> AuditEntry:
    while True:
        try:
            return await writer.write(NOTE)
        except RedisAway:
            await asyncio.sleep(0.05)


async def test_more_than_may_be_kept_is_removed_and_an_entry_says_so(store: Store) -> None:
    writer = Auditor(store.audit, KEYS, "i-1", AuditSettings(max_entries=20))
    for _ in range(60):
        await writer.write(NOTE)
    entries = await entries_of(store)
    assert 20 <= len(entries) <= 23
    assert entries[0].seq > 30
    assert AuditAction.LOG_TRIMMED in {entry.action for entry in entries}
    assert (await verdict_of(store)).is_good


async def test_entries_are_removed_when_they_are_old(store: Store) -> None:
    clock = Clock()
    writer = Auditor(store.audit, KEYS, "i-1", AuditSettings(keep_ms=100 * DAY_MS), clock)
    for _ in range(3):
        await writer.write(NOTE)
        clock.pass_ms(40 * DAY_MS)
    await writer.forget_old()
    first, *_, trimmed = await entries_of(store)
    assert (first.seq, trimmed.action, trimmed.values) == (3, AuditAction.LOG_TRIMMED, {"kept_from": 3})
    assert (await verdict_of(store)).is_good
    await writer.forget_old()
    assert len(await entries_of(store)) == 3


async def test_entries_that_are_all_old_are_removed_but_for_the_last(store: Store) -> None:
    clock = Clock()
    writer = Auditor(store.audit, KEYS, "i-1", AuditSettings(keep_ms=DAY_MS), clock)
    for _ in range(3):
        await writer.write(NOTE)
    clock.pass_ms(10 * DAY_MS)
    await writer.forget_old()
    assert [entry.seq for entry in await entries_of(store)] == [4, 5]
    assert (await verdict_of(store)).is_good


async def test_an_empty_log_has_nothing_to_forget(store: Store) -> None:
    await auditor(store).forget_old()
    assert await entries_of(store) == []


async def test_refused_credentials_are_one_entry_with_sums(store: Store) -> None:
    writer = auditor(store)
    await writer.write_denied()
    assert await entries_of(store) == []
    for _ in range(3):
        writer.denied("10.0.0.1", "lk_op_abc")
    writer.denied("10.0.0.2")
    await writer.write_denied()
    await writer.write_denied()
    (entry,) = (await entries_of(store))[1:]
    assert (entry.action, entry.object) == (AuditAction.CREDENTIALS_REFUSED, "4 credentials")
    assert entry.values == {"10.0.0.1": "3 lk_op_abc", "10.0.0.2": "1"}


async def test_refused_credentials_wait_while_redis_is_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = auditor(store)
    writer.denied("10.0.0.1")
    monkeypatch.setattr(auditing, "MOST_TRIES", 0)
    with pytest.raises(RedisAway):
        await writer.write_denied()
    monkeypatch.undo()
    writer.denied("10.0.0.1")
    await writer.write_denied()
    assert (await entries_of(store))[-1].values == {"10.0.0.1": "2"}


async def test_after_the_key_was_changed_the_chain_goes_on_with_both(store: Store) -> None:
    await auditor(store).write(NOTE)
    both = AuditKeys([b"n" * 32, b"k" * 32])
    await auditor(store, "i-2", both).write(NOTE)
    assert (await verdict_of(store, keys=both)).is_good
    assert [fault.kind for fault in (await verdict_of(store)).faults] == [AuditFaultKind.UNKNOWN_KEY]


def test_a_start_tells_by_a_digest_whether_settings_changed_but_no_password() -> None:
    def digest(url: str, port: int = 5010) -> object:
        settings = Settings(redis=RedisSettings(url=url), server=ServerSettings(port=port))
        note = start_note("i-1", "1.0", settings)
        assert (note.action, note.object, note.values["release"]) == (AuditAction.SCHEDULER_STARTED, "i-1", "1.0")
        return note.values["settings"]

    assert digest("redis://:one@db/0") == digest("redis://:two@db/0")
    assert digest("redis://db/0") != digest("redis://db/0", port=5011)
    assert digest("redis://db/0") != digest("redis://other/0")
