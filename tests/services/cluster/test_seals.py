"""Which letters are sealed, and what becomes of one that cannot be opened."""

import asyncio
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.bus import Finished
from lingua_scheduler.protocol.sealing import BrokenSeal, Keyring, OtherKey, is_sealed
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.cluster.seals import SEALED, KeyFileError, Seals, announced, load_or_make, names_key
from lingua_scheduler.setting_sections.instances import SealLetters
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.mail import ROOMY, letter, lost, office, who, written
from tests.support.schedulers import settings_with
from tests.support.waiting import until

ONE, OTHER = Keyring([b"1" * 32]), Keyring([b"2" * 32])


async def bodies(store: Store, instance: str) -> list[bytes]:
    """What lies in its inbox, as Redis has it."""
    entries = await store.line.call("XRANGE", store.keys.inbox(instance), "-", "+")
    return [fields[7].encode("utf-8", "surrogateescape") for _, fields in entries]


def test_the_key_file_is_made_once_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cluster.key"
    first = load_or_make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load_or_make(path).ids == first.ids
    assert [found.name for found in path.parent.iterdir()] == ["cluster.key"]


async def test_processes_that_start_together_get_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    rings = await asyncio.gather(*(asyncio.to_thread(load_or_make, path) for _ in range(20)))
    assert len({ring.ids for ring in rings}) == 1


def test_names_are_made_with_a_key_of_their_own_that_all_instances_share() -> None:
    made = names_key(ONE)
    assert made == names_key(Keyring([b"1" * 32, b"2" * 32]))
    assert len({made, names_key(OTHER), b"1" * 32, ONE.derive(b"lingua audit")[0]}) == 4
    assert names_key(None) == b""


def test_a_key_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    path.write_bytes(b"\xff")
    with pytest.raises(KeyFileError, match=r"cluster\.key"):
        load_or_make(path)
    path.write_text("deadbeef")
    with pytest.raises(KeyFileError, match="64 hexadecimal digits") as refusal:
        load_or_make(path)
    assert "deadbeef" not in str(refusal.value)
    with pytest.raises(KeyFileError, match="cannot be read or created"):
        load_or_make(path / "below" / "a-file")


async def test_letters_are_sealed_between_instances_with_the_same_key(store: Store) -> None:
    async with office(store, "a", ONE) as here, office(store, "b", ONE) as there:
        there.go_on.clear()
        await here.mailroom.post("b", lost(1))
        (body,) = await bodies(store, "b")
        assert is_sealed(body)
        assert b"job-0-1" not in body
        there.go_on.set()
        await until(lambda: there.numbers == [1])


async def test_none_is_sealed_while_somebody_alive_could_not_open_it(store: Store) -> None:
    """A release that cannot seal, as in a rolling upgrade, or an instance with another key: all go on working."""
    for others in (None, OTHER):
        async with office(store, "a", ONE) as here, office(store, "b", ONE) as there, office(store, "c", others):
            await here.presence.look()
            there.go_on.clear()
            await here.mailroom.post("b", lost(1))
            (body,) = await bodies(store, "b")
            assert not is_sealed(body)
            there.go_on.set()
            await until(lambda: there.numbers == [1])
        await here.presence.look()
        assert [found.instance_id for found in here.presence.living] == []


async def test_sealing_begins_when_the_last_one_that_could_not_is_gone(store: Store) -> None:
    await store.instances.join(who("old"), 800)
    # The first letter is tried again and again until the second is there; that must not make it a dead letter.
    async with office(store, "a", ONE) as here, office(store, "b", ONE, inbox__max_deliveries=1000) as there:
        there.go_on.clear()
        await here.mailroom.post("b", lost(1))
        await until(lambda: here.presence.all_can(ONE.ids[0]), 20)
        await here.mailroom.post("b", lost(2, "job-0-1"))
        assert [is_sealed(body) for body in await bodies(store, "b")] == [False, True]
        there.go_on.set()
        # A letter that is tried again may come after a later one.
        await until(lambda: {1, 2} <= set(there.numbers))


async def test_an_instance_that_stood_still_goes_on_sealing(store: Store) -> None:
    """By its next look everybody has been silent for too long, itself too, and nobody counts as alive."""
    settings = settings_with(instances__dead_ms=1).instances
    presence = Presence(who("a", seals=announced(ONE)), store, settings)
    await presence.join()
    await until(lambda: _is_alone(presence))
    assert presence.all_can(ONE.ids[0])
    assert Seals(presence, ONE, "auto").session("s-1", "s-1.token") is not None


async def _is_alone(presence: Presence) -> bool:
    await presence.look()
    return not presence.living


@pytest.mark.expects_surprise("letter.dead")
async def test_a_letter_sealed_with_another_key_is_a_dead_letter_and_nobody_crashes(store: Store) -> None:
    before = metrics.DEAD_LETTERS.labels("other_key")._value.get()
    async with office(store, "a", ONE, privacy__seal_letters="always") as here, office(store, "b", OTHER) as there:
        await here.mailroom.post("b", lost(1))
        await until(lambda: there.buried)
        assert [reason for _, reason in there.buried] == ["other_key"]
        await until(lambda: metrics.DEAD_LETTERS.labels("other_key")._value.get() == before + 1)
        await there.mailroom.post("a", lost(2))  # not sealed
        await until(lambda: [reason for _, reason in here.buried] == ["unreadable"])


async def test_of_the_living_one_with_the_key_handles_what_was_sealed_to_the_dead(store: Store) -> None:
    async with office(store, "dead", ONE) as dead, office(store, "a", ONE) as here:
        dead.go_on.clear()
        await here.mailroom.post("dead", lost(1))
    assert [is_sealed(body) for body in await bodies(store, "dead")] == [True]
    async with (
        office(store, "b", OTHER, inbox__max_deliveries=1000) as other,
        office(store, "c", ONE, inbox__max_deliveries=1000) as there,
    ):
        await until(lambda: there.numbers == [1], 30)
        assert other.buried == []


@pytest.mark.expects_surprise("letter.dead")
async def test_a_sealed_letter_in_another_inbox_or_under_another_name_is_not_believed(store: Store) -> None:
    async with office(store, "a", ONE) as here, office(store, "b", ONE) as there, office(store, "c", ONE) as thief:
        there.go_on.clear()
        await here.mailroom.post("b", lost(1))
        ((_, fields),) = await store.line.call("XRANGE", store.keys.inbox("b"), "-", "+")
        body = fields[7].encode("utf-8", "surrogateescape")
        await store.line.call("XADD", store.keys.inbox("c"), "*", *fields[:7], body)
        await store.line.call("XADD", store.keys.inbox("b"), "*", *fields[:5], "another", "body", body)
        await until(lambda: thief.buried and there.buried)
        assert thief.buried[0][1] == there.buried[0][1] == "unreadable"
        assert thief.numbers == []
        there.go_on.set()
        await until(lambda: there.numbers == [1])


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.expects_surprise("letter.dead")
async def test_a_dead_letter_keeps_speech_only_if_asked_to(store: Store, keeps: bool) -> None:
    async with office(store, "a", ONE) as here, office(store, "b", ONE, inbox__keep_speech=keeps):
        speech = Finished(Attempt("job-0-1", 1, "n1", 0), b"zebrafinch")
        await here.mailroom.post("b", speech)  # an office has no handler for it
        (dead,) = await until(lambda: store.inboxes.dead_letters("b", 10))
        assert (dead.subject, dead.reason, bool(dead.entry.body)) == ("job-0-1", "no_handler", keeps)
        assert dead.body_bytes > len(speech.frame)
        assert b"zebrafinch" not in dead.entry.body


@pytest.mark.expects_surprise("letter.dead")
async def test_a_letter_of_the_release_before_is_read(store: Store) -> None:
    async with office(store, "b", ONE) as there:
        await store.inboxes.post("b", written(7), ROOMY)
        await until(lambda: there.numbers == [7])
        await store.inboxes.post("b", letter("u8", b"\xc1" + b"x" * 40, "attempt_lost"), ROOMY)
        await until(lambda: there.buried == [("u8", "other_key")])


async def seals_of(store: Store, instance: str, keyring: Keyring | None, mode: SealLetters = "auto") -> Seals:
    presence = Presence(who(instance, seals=announced(keyring)), store, settings_with().instances)
    await presence.join()
    await presence.look()
    return Seals(presence, keyring, mode)


async def test_signals_are_sealed_on_the_same_terms_as_letters(store: Store) -> None:
    here, there = await seals_of(store, "a", ONE), await seals_of(store, "b", ONE)
    sealed = here.signal("b", "a word")
    assert sealed.startswith(SEALED)
    assert "a word" not in sealed
    assert there.open_signal(sealed) == "a word"
    # It is for nobody else.
    with pytest.raises(BrokenSeal):
        here.open_signal(sealed)
    for broken in (f"{SEALED}???", f"{SEALED}!{sealed[len(SEALED) :]}", sealed[:-8]):
        with pytest.raises((BrokenSeal, OtherKey)):
            there.open_signal(broken)
    with pytest.raises(BrokenSeal):
        there.open_signal(f"{SEALED}???")


async def test_a_signal_in_the_clear_is_read_and_one_without_a_key_is_not(store: Store) -> None:
    without, other = await seals_of(store, "a", None), await seals_of(store, "b", OTHER)
    assert without.signal("b", "a word") == "a word"
    assert other.open_signal("a word") == "a word"
    # Somebody alive could not open it.
    assert other.signal("a", "a word") == "a word"
    always = Seals(other._presence, OTHER, "always")
    for reader in (without, Seals(without._presence, ONE)):
        with pytest.raises(OtherKey):
            reader.open_signal(always.signal("a", "a word"))
    never = Seals(other._presence, OTHER, "never")
    await store.instances.leave(who("a"), 6_000)
    await other._presence.look()
    assert never.signal("b", "a word") == "a word"
    assert other.signal("b", "a word") != "a word"


async def test_at_the_start_it_is_told_who_has_another_key(store: Store) -> None:
    here = await seals_of(store, "a", ONE)
    with capture_logs() as logged:
        here.tell_who_cannot_open()
    assert logged == []
    await seals_of(store, "b", OTHER)
    without = await seals_of(store, "c", None)
    await here._presence.look()
    with capture_logs() as logged:
        here.tell_who_cannot_open()
        without.tell_who_cannot_open()
    ((event, instances, keys),) = [(line["event"], line["instances"], line["their_keys"]) for line in logged]
    assert (event, instances, keys) == ("cluster_key.differs", ["b", "c"], [OTHER.ids[0]])


async def test_parked_outcomes_are_sealed_when_all_can_open_them(store: Store) -> None:
    here = await seals_of(store, "a", None)
    assert here.session("s", "token") is not None
    old = Presence(who("old"), store, settings_with().instances)
    await old.join()
    await here._presence.look()
    assert here.session("s", "token") is None


def test_a_key_file_that_others_can_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    load_or_make(path)
    for mode, expected in ((0o600, []), (0o640, ["cluster_key.exposed"]), (0o604, ["cluster_key.exposed"])):
        path.chmod(mode)
        with capture_logs() as logged:
            load_or_make(path)
        assert [line["event"] for line in logged] == expected


@pytest.mark.expects_surprise("letter.dead")
async def test_where_everything_is_sealed_a_letter_in_the_clear_is_a_forgery(store: Store) -> None:
    async with office(store, "a", ONE, privacy__seal_letters="always") as there:
        await store.inboxes.post("a", written(1), ROOMY)
        await until(lambda: there.buried == [("u1", "unreadable")])
        assert there.numbers == []
        with pytest.raises(BrokenSeal):
            there.mailroom.seals.open_signal("{}")


async def test_without_a_key_letters_in_the_clear_are_all_there_is(store: Store) -> None:
    async with office(store, "a", privacy__seal_letters="always") as there:
        await store.inboxes.post("a", written(1), ROOMY)
        await until(lambda: there.numbers == [1])


def test_one_without_a_key_opens_what_is_in_the_clear_and_nothing_else(store: Store) -> None:
    seals = Seals(Presence(who("i-a"), store, settings_with().instances))
    plain = letter("u1", b"hello")
    assert seals.open("i-a", plain) == b"hello"
    with pytest.raises(OtherKey):
        seals.open("i-a", plain._replace(body=ONE.seal(b"hello", b"")))
