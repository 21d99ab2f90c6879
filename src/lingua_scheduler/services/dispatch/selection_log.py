"""Tells how a node was selected for a job: in the log, and in the answer to a caller who preferred a node.

The log limits each event by itself (`logs.storm_lines`)."""

from enum import StrEnum

from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.services.attempts.work import Work
from lingua_scheduler.telemetry import logs

_log = logs.get()


class PassedOver(StrEnum):
    """Why a preferred node was not taken."""

    UNFIT = "unfit"
    BUSY = "busy"
    TRIED = "tried"


_WORDS = {
    PassedOver.UNFIT: "it is not connected, does not accept jobs or does not serve the language pair",
    PassedOver.BUSY: "all its slots are in use",
    PassedOver.TRIED: "it failed this job before",
}


def passed_over(work: Work, wanted: Try, taken: Attempt, *, is_unfit: bool) -> None:
    """Another node was taken than the one that was asked for."""
    preferred = work.wish.preferred_node
    reason = PassedOver.UNFIT if is_unfit else PassedOver.BUSY
    if preferred in wanted.tried:
        reason = PassedOver.TRIED
    _log.info("node.passed_over", node_id=preferred, reason=reason.value, taken=taken.node_id, job_id=taken.job_id)
    if work.notes is not None:
        work.notes.append(f"{preferred} was not taken: {_WORDS[reason]}")


def found_none(work: Work, wanted: Try, outcome: DispatchOutcome) -> None:
    src, tgt, facet = Pool.parse(work.pools[0])
    _log.info(
        "selection.failed",
        job_id=wanted.job_id,
        session_id=work.session_id,
        attempt=wanted.number,
        outcome=outcome.value,
        src=src,
        tgt=tgt,
        facet=facet,
        tried=len(wanted.tried),
    )


def step(wanted: Try, shard: int, outcome: DispatchOutcome, node_id: str, asked_for: str) -> None:
    """One shard was asked. Call it only while `logs.shows_debug`: it is on the path of every job."""
    _log.debug(
        "selection.step",
        job_id=wanted.id_in(shard),
        attempt=wanted.number,
        shard=shard,
        outcome=outcome.value,
        node_id=node_id,
        asked_for=asked_for,
    )


def waits(wanted: Try, queue: str) -> None:
    """It stands in line. Call it only while `logs.shows_debug`."""
    _log.debug("selection.waits", job_id=wanted.job_id, attempt=wanted.number, queue=queue)
