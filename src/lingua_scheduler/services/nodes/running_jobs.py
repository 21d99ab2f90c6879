"""What a node runs, compared with what Redis has leases for, both ways."""

from collections.abc import Collection

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.attempts import ADOPTED, Attempt
from lingua_scheduler.domain.jobs.job_ids import is_job_id
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.nodes.links import NodeLink
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.nodes.ledger import Ledger
from lingua_scheduler.telemetry import logs
from lingua_sdk.domain.losses import Loss

_log = logs.get()


class RunningJobs:
    def __init__(self, ledger: Ledger, endings: Endings, settings: Settings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._ledger = ledger
        self._endings = endings
        self._max_jobs = settings.nodes.max_jobs
        self._missed_heartbeats = settings.nodes.missed_heartbeats
        self._linger_ms = settings.job.linger_ms
        self._run_max_ms = settings.job.timeout_max_ms

    def reported(self, running: Collection[str]) -> set[str]:
        return {job_id for job_id in list(running)[: 2 * self._max_jobs] if is_job_id(job_id)}

    async def reconcile(self, link: NodeLink, running: list[str]) -> None:
        """Compare what the node runs with what we gave it, both ways.

        Of what it was given a while ago Redis is asked for the leases by name; only one that is missing costs more.
        """
        reported = self.reported(running)
        # What was sent a moment ago may have crossed with this report.
        settled_before = self._clock() - link.alive_ms / 1000 / self._missed_heartbeats
        disowned = [
            attempt
            for job_id, (attempt, sent_at) in link.sent.items()
            if job_id not in reported and sent_at < settled_before
        ]
        for attempt in disowned:
            del link.sent[attempt.job_id]
        if disowned:
            _log.warning("attempts.disowned", node_id=link.node_id, attempts=len(disowned))
            await self._endings.end_disowned(disowned)
        # Also what we did give it, when it takes long: its lease may have ended before the job.
        doubtful = [job_id for job_id in reported if job_id in link.sent and link.sent[job_id][1] < settled_before]
        if strange := [job_id for job_id in reported if job_id not in link.sent]:
            doubtful += strange[: link.pace.may_adopt(len(strange))]
        if doubtful:
            for job_id in doubtful:
                attempt = Attempt(job_id, ADOPTED, link.node_id, link.shard)
                link.sent.setdefault(job_id, (attempt, float("-inf")))
            believed = [link.sent[job_id][0] for job_id in doubtful]
            adopted = await self._ledger.adopt(link.shard, link.owner, link.node_id, believed, self.bound_ms(link))
            if adopted:
                _log.warning("leases.adopted", node_id=link.node_id, adopted=len(adopted))
                await self.account(link, adopted)

    def bound_ms(self, link: NodeLink) -> int:
        """How long an adopted job holds its slot without a report that it has ended or still runs."""
        return max(self._linger_ms, link.alive_ms) if link.profile.reports_jobs else self._run_max_ms

    async def account(self, link: NodeLink, adopted: Collection[str]) -> None:
        """Remembered under the name of the adopted lease, so that it ends when the node lets go of the job."""
        over = []
        for job_id in adopted:
            attempt = Attempt(job_id, ADOPTED, link.node_id, link.shard)
            known = link.sent.get(job_id)
            if known is None:
                # Its result came while Redis was asked.
                over.append(attempt)
            else:
                link.sent[job_id] = (attempt, float("-inf") if link.profile.reports_jobs else known[1])
        if over:
            await self._endings.end_disowned(over)

    async def take_over(self, link: NodeLink, handed_back: Collection[Attempt]) -> None:
        """The node was registered: attempts of its previous epoch are lost, or continue."""
        await self._endings.end_overdue(handed_back, Loss.NODE_RETURNED)
        if link.profile.reports_jobs and not handed_back:
            # The same process may come from another instance. What it was given there and does not run, as its first
            # heartbeat tells after the results it kept, never reached it.
            for lease in await self._ledger.leases(link.node_id, link.shard):
                link.sent[lease.attempt.job_id] = (lease.attempt, float("-inf"))
