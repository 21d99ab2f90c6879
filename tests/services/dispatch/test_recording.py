"""Jobs without an attempt are recorded with the reason why they wait or failed; beyond a rate they are counted."""

import msgspec
import pytest

from lingua_scheduler.domain.jobs.attempts import NoteOutcome, Try
from lingua_scheduler.domain.pools.pools import Admission
from lingua_scheduler.protocol.http_jobs import Explanation
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch import recording
from lingua_scheduler.services.dispatch.explaining import Explainer
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.jobs.records import JobRecord
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from lingua_sdk.domain.errors import ErrorCode
from tests.support.fleet import POOL, entry, join
from tests.support.speech import work
from tests.support.waiting import until

ERROR = ErrorCode.NO_CAPABLE_NODE


async def recorder_on(store: Store) -> Recorder:
    pool_map = PoolMapCopy(store.pools, Leadership("i-here", store.pools, 1_000))
    await pool_map.look_again()
    return Recorder("i-here", store, pool_map, Explainer(store, pool_map, Admission.STRICT), 60_000)


@pytest.fixture
async def recorder(store: Store) -> Recorder:
    await join(store, entry("n1"))
    return await recorder_on(store)


async def record_of(store: Store, wanted: Try) -> JobRecord:
    async def found() -> JobRecord | None:
        return await store.jobs.find(wanted.job_id)

    record: JobRecord = await until(found)
    return record


async def explained(store: Store, wanted: Try) -> Explanation:
    async def found() -> str:
        record = await store.jobs.find(wanted.job_id)
        return "" if record is None else record.explanation

    return msgspec.json.decode(await until(found), type=Explanation)


def skipped() -> float:
    return metrics.REGISTRY.get_sample_value("lingua_job_records_skipped_total") or 0.0


async def test_a_job_that_waits_gets_an_id_once_and_can_be_found(store: Store, recorder: Recorder) -> None:
    wanted = Try(1, "w", 1_000)
    recorder.waits(work(utterance_index=7), wanted)
    assert wanted.job_id == "job-0-w"
    record = await record_of(store, wanted)
    assert (record.state, record.owner, record.session_id) == ("CREATED", "i-here", "s-00000001")
    assert (record.utterance_index, record.pools) == (7, (POOL,))
    assert "n1" in {candidate.node_id for candidate in (await explained(store, wanted)).candidates}
    wanted.shard = 5
    recorder.waits(work(), wanted)
    assert (wanted.shard, wanted.job_id) == (5, "job-0-w")
    await recorder.close()


async def test_a_job_that_is_refused_says_why(store: Store, recorder: Recorder) -> None:
    wanted = Try(1, "w", 1_000)
    assert await recorder.refused(work(), wanted, ERROR, "nobody is here") is NoteOutcome.NOTED
    record = await record_of(store, wanted)
    assert (record.state, record.reason, record.detail) == ("FAILED", ERROR.value, "nobody is here")
    assert (await explained(store, wanted)).headline == "nobody is here"
    await recorder.close()


async def test_a_job_that_was_cancelled_while_it_waited_is_not_refused(store: Store, recorder: Recorder) -> None:
    wanted = Try(1, "w", 1_000)
    recorder.waits(work(), wanted)
    await store.jobs.cancel(await record_of(store, wanted), 0)
    assert await recorder.refused(work(), wanted, ERROR, "nobody is here") is NoteOutcome.STALE
    assert (await record_of(store, wanted)).state == "CANCELLED"
    await recorder.close()


async def test_a_job_is_kept_in_the_shard_that_serves_its_pair_or_else_in_the_first(store: Store) -> None:
    await store.placements.assign("n1", 1, 1000)
    await store.placements.assign("n2", 1, 1000)
    await join(store, entry("n2"), shard=1)
    recorder = await recorder_on(store)
    here, nowhere = Try(1, "a", 1_000), Try(1, "b", 1_000)
    recorder.waits(work(), here)
    recorder.waits(work(pools=("xx:yy:speech",)), nowhere)
    assert (here.job_id, nowhere.job_id) == ("job-1-a", "job-0-b")
    await recorder.close()


async def test_beyond_a_rate_jobs_are_only_counted_but_one_that_is_known_is_always_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RECORDS_PER_S", 1e-9)
    recorder = await recorder_on(store)
    while recorder._may_record():
        pass
    before = skipped()
    waiting, refused = Try(1, "a", 1_000), Try(1, "b", 1_000)
    recorder.waits(work(), waiting)
    assert await recorder.refused(work(), refused, ERROR, "no") is None
    assert (waiting.job_id, refused.job_id, skipped()) == ("", "", before + 2)
    waiting.begin_in(0)
    assert await recorder.refused(work(), waiting, ERROR, "no") is NoteOutcome.NOTED
    await recorder.close()


async def test_only_so_many_explanations_are_made_at_once_and_each_makes_room_when_it_is_done(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "EXPLAINING_MAX", 1)
    surveys: list[str] = []
    survey = recorder._explainer.survey

    async def watched(pools: object, tried: object, headline: str = "", holder: str = "") -> Explanation:
        surveys.append(headline)
        if headline == "away":
            raise RedisAway("gone at that moment")
        return await survey((POOL,), (), headline)

    monkeypatch.setattr(recorder._explainer, "survey", watched)
    recorder.explain(work(), 0, "job-0-a", headline="first")
    recorder.explain(work(), 0, "job-0-a", headline="too many")
    await until(lambda: not recorder._explaining)
    recorder.explain(work(), 0, "job-0-a", headline="away")
    await until(lambda: not recorder._explaining)
    recorder.explain(work(), 0, "job-0-a", headline="last")
    await until(lambda: not recorder._explaining)
    assert surveys == ["first", "away", "last"]
    await recorder.close()


async def test_a_job_that_redis_does_not_record_goes_on(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RedisAway("gone at that moment")

    monkeypatch.setattr(store.jobs, "note", fail)
    wanted = Try(1, "w", 1_000)
    assert await recorder.refused(work(), wanted, ERROR, "no") is None
    assert wanted.job_id == "job-0-w"
    await recorder.close()


async def test_fifty_jobs_a_second_are_recorded_and_twenty_explained(
    store: Store, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(recorder, "_clock", lambda: now_s)
    for expected in (50, 25):
        count = 0
        while recorder._may_record():
            count += 1
        assert count == expected
        now_s += 0.5
    for _ in range(100):
        recorder.explain(work(), 0, "job-0-1")
    assert recorder._explaining == 20
    await until(lambda: recorder._explaining == 0)
    now_s += 0.5
    for _ in range(100):
        recorder.explain(work(), 0, "job-0-1")
    assert recorder._explaining == 10
    await recorder.close()
