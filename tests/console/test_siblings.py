"""One worker answers for all: also when another is silent, dead, or just being buried."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingua_scheduler.console.siblings import Siblings
from lingua_scheduler.telemetry import departed, metrics
from lingua_scheduler.telemetry.figures import MetricFamily, Sample, total

OTHER = "1-999"
COUNTED = [
    MetricFamily("lingua_outbox_overflows", "", "counter", [Sample("lingua_outbox_overflows_total", {}, 1000.0)]),
    MetricFamily("lingua_workers", "", "gauge", [Sample("lingua_workers", {}, 1.0)]),
]


@pytest.fixture
async def siblings(tmp_path: Path) -> AsyncIterator[Siblings]:
    metrics.WORKERS.set(1)
    opened = Siblings(tmp_path, 0, "i-here")
    await opened.open()
    yield opened
    await opened.close()


async def overflows(siblings: Siblings) -> int:
    own = int(metrics.REGISTRY.get_sample_value("lingua_outbox_overflows_total") or 0)
    return total((await siblings.together()).families, "lingua_outbox_overflows_total") - own


def silences() -> float:
    return metrics.REGISTRY.get_sample_value("lingua_workers_silent_total") or 0


async def test_a_worker_alone_answers_for_itself(siblings: Siblings) -> None:
    (worker,) = (await siblings.together()).workers
    assert (worker.worker, worker.instance_id) == (0, "i-here")


async def test_workers_answer_each_other(siblings: Siblings, tmp_path: Path) -> None:
    other = Siblings(tmp_path, 1, "i-there")
    await other.open()
    try:
        for asked in (siblings, other):
            together = await asked.together()
            assert [one.instance_id for one in together.workers] == ["i-here", "i-there"]
            assert total(together.families, "lingua_workers") == 2
    finally:
        await other.close()


async def test_a_worker_that_does_not_answer_is_counted_and_keeps_nobody_waiting(
    siblings: Siblings, tmp_path: Path
) -> None:
    hung = asyncio.Event()

    async def never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung.wait()
        writer.close()

    departed.note(tmp_path, OTHER, COUNTED)
    server = await asyncio.start_unix_server(never, str(tmp_path / f"{OTHER}.sock"))
    before = silences()
    async with asyncio.timeout(60):
        together = await siblings.together()
    assert silences() == before + 1
    assert len(together.workers) == 1
    assert total(together.families, "lingua_workers") == 1
    assert total(together.families, "lingua_outbox_overflows_total") >= 1000
    hung.set()
    server.close()


async def test_what_a_dead_worker_counted_is_there_before_and_after_its_burial(
    siblings: Siblings, tmp_path: Path
) -> None:
    departed.note(tmp_path, OTHER, COUNTED)
    assert await overflows(siblings) == 1000
    departed.bury(tmp_path, OTHER)
    before = silences()
    assert await overflows(siblings) == 1000
    assert silences() == before


async def test_a_worker_that_dies_after_its_answer_is_counted_once(siblings: Siblings, tmp_path: Path) -> None:
    """Buried, but its last answer is still around: as if it had died while it was asked."""
    departed.note(tmp_path, OTHER, COUNTED)
    departed.bury(tmp_path, OTHER)
    departed.note(tmp_path, OTHER, COUNTED)
    assert await overflows(siblings) == 1000
