"""The retry policy: a state machine that says what to do with a job whose attempts may fail.

Events go in (`begin`, `on_…`), decisions come out. It awaits nothing, so a task or callbacks can drive it.
"""

from enum import Enum

import msgspec

from lingua_scheduler.domain.jobs import retry_budget
from lingua_scheduler.domain.jobs.attempts import Attempt, DispatchOutcome, Try
from lingua_scheduler.domain.jobs.jobs import JobEvent, JobState
from lingua_scheduler.domain.jobs.retry_budget import RetryBudget
from lingua_scheduler.domain.jobs.retry_steps import (
    AWAY,
    CANCELLED,
    PLACE,
    REFUSED,
    RESULT_GONE,
    WITHDRAWN,
    Denial,
    End,
    GiveUp,
    PlaceJob,
    PlaceWhenBack,
    Renew,
    Renewal,
)
from lingua_scheduler.domain.pools.names import Pool
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.losses import Loss, known_reason

NEVER_LEFT = (Loss.SEND_FAILED,)
# The node vanished or forgot the job, or the way to it broke: not its fault, and it may be back. When there is no
# other node, it is asked again; one that does not acknowledge under another job id, because it takes each id once.
VANISHED = (
    *NEVER_LEFT,
    Loss.NODE_GONE,
    Loss.NODE_SILENT,
    Loss.NODE_RETURNED,
    Loss.INSTANCE_GONE,
    Loss.DISOWNED,
)
SILENCE = (Loss.JOB_TIMEOUT, Loss.PART_TIMEOUT, Loss.NO_ANSWER, Loss.LEASE_OVER, ErrorCode.JOB_TIMEOUT)

# What is written of a dead instance's nodes is removed in a moment: no rush to fail on them again.
RETURNS = Backoff(0.1, 2.0)
# An attempt that never reached its node, or vanished with it, is not counted as a retry, up to this many.
MAX_UNSENT = 10
# An utterance whose job was closed behind our back is given to a new job this often at most.
MAX_RESTARTS = 3

_GOOD_ENDS = {JobEvent.FINISH: End(JobState.DONE), JobEvent.FIND_NO_TEXT: End(JobState.NO_TEXT)}


class Phase(Enum):
    """Which events may come next."""

    NEW = "new"  # begin
    PLACING = "placing"  # placed, not placed, Redis away, cancelled
    INSISTING = "insisting"  # the same, after Redis was away once
    AT_NODE = "at_node"  # result, failed, lost, withdrawn, cancelled
    RENEWING = "renewing"  # renewed, cancelled
    OVER = "over"


# Bound once: every job passes here, and on Python 3.11 it takes three times as long to look up `Phase.NAME`.
_NEW, _PLACING, _INSISTING, _AT_NODE, _RENEWING, _OVER = Phase


class IllegalEvent(Exception):
    """An event came that cannot happen in this phase: a bug of the caller."""


class RetryRules(msgspec.Struct, frozen=True):
    """What all jobs of an instance share."""

    max_retries: int
    # How long a job waits for Redis to come back.
    patience_s: float
    budget: RetryBudget


class RetryCourse(msgspec.Struct, eq=False, gc=False):
    """One utterance on its way to an outcome. `wanted` is the attempt to be placed now."""

    rules: RetryRules
    wanted: Try
    # What it asks for, to say what was not there.
    pool: str
    preferred_node: str = ""
    # A request is bound to the job id: no node is worth another one.
    is_id_promised: bool = False
    # The caller already has the job id and will ask for no other, also after the job has ended.
    is_call: bool = False
    # Why the last attempt was lost; empty before the first loss.
    lost: str = ""
    # What the node told besides, in known words.
    _cause: str = ""
    phase: Phase = _NEW
    _attempt: Attempt | None = None
    _acknowledges: bool = False
    # Whether the node that had it last said itself that it failed. One that was only silent may have answered.
    _has_failed: bool = False
    # Nodes that may be asked again, and whether under the same job id.
    _innocent: dict[str, bool] = msgspec.field(default_factory=dict)
    _unsent: int = 0
    _restarts: int = 0
    _renewal: Renewal | None = None
    _tried_after_renewal: tuple[str, ...] = ()

    @property
    def job_id(self) -> str:
        """The id it has now; empty before any shard took it."""
        return self.wanted.job_id if self._attempt is None else self._attempt.job_id

    def begin(self) -> PlaceJob:
        if self.phase is not _NEW:
            raise self._illegal("begin")
        self.phase = _PLACING
        self.rules.budget.earn()
        return PLACE

    def on_placed(self, attempt: Attempt, acknowledges: bool) -> None:
        """A node has a slot for it. Send it; the next event is how that ended."""
        if self.phase is not _PLACING and self.phase is not _INSISTING:
            raise self._illegal("placed")
        self.phase = _AT_NODE
        self._attempt = attempt
        self._acknowledges = acknowledges

    def on_not_placed(self, outcome: DispatchOutcome, shard: int = -1) -> PlaceJob | Renew | GiveUp:
        """There is no slot for it. `shard` is the one that knows a job that is STALE."""
        if self.phase not in (_PLACING, _INSISTING):
            raise self._illegal("not placed")
        if outcome is DispatchOutcome.STALE:
            if not self.wanted.job_id:
                # An earlier question was answered there, and the answer was lost.
                self.wanted.begin_in(shard)
            if self._restarts < MAX_RESTARTS:
                return self._start_over()
        if outcome is DispatchOutcome.EXHAUSTED and self._innocent:
            return self._go_back()
        return self._give_up(outcome)

    def on_redis_away(self, now_s: float, *, refuses_writes: bool = False) -> PlaceWhenBack | End:
        """Redis did not answer the question for a slot, the second time not within the patience."""
        if self.phase not in (_PLACING, _INSISTING):
            raise self._illegal("Redis away")
        if self.phase is _PLACING and not refuses_writes:
            self.phase = _INSISTING
            return PlaceWhenBack(min(self.rules.patience_s, self.wanted.give_up_at - now_s))
        self.phase = _OVER
        detail = REFUSED if refuses_writes else AWAY
        return End(JobState.FAILED, ErrorCode.SCHEDULER_DEPENDENCY_DOWN, detail)

    def on_result(self, event: JobEvent, reason: str) -> End | None:
        """The node's word; `event` and `reason` are what it means for the job.

        None when it cost the node only this attempt: report `on_failed`. Most results end the job, and need neither
        the time nor dice.
        """
        if self.phase is not _AT_NODE:
            raise self._illegal("result")
        end = _GOOD_ENDS.get(event)
        if end is None:
            if event is JobEvent.LOSE_ATTEMPT:
                return None
            error = ErrorCode.__members__.get(reason, ErrorCode.PROCESSING_ERROR)
            end = End(JobState.FAILED, error, "the node failed the job")
        self.phase = _OVER
        return end

    def on_failed(self, reason: str, now_s: float, dice: float, cause: str = "") -> PlaceJob | GiveUp:
        """The node said that it failed. It does not get the job again, unless it only had it before.

        `cause`: what it told besides, in known words.
        """
        decision = self.on_lost(reason, now_s, dice, cause)
        self._has_failed = reason != Loss.DUPLICATE
        return decision

    def on_lost(self, reason: str, now_s: float, dice: float, cause: str = "") -> PlaceJob | GiveUp:
        """The attempt ended without the node's word. `wanted` is the next one, also when there will be none."""
        if self.phase is not _AT_NODE or self._attempt is None:
            raise self._illegal("lost")
        attempt, self._attempt = self._attempt, None
        self._has_failed = False
        self.lost, self._cause = known_reason(reason), cause
        may_return = self._may_return()
        if may_return:
            self._innocent[attempt.node_id] = self._acknowledges
        else:
            # It may have vanished with the job before.
            self._innocent.pop(attempt.node_id, None)
        if self.lost in (VANISHED if may_return else NEVER_LEFT):
            self._unsent += 1
        self.wanted = msgspec.structs.replace(
            self.wanted,
            number=self.wanted.number + 1,
            job_id=attempt.job_id,
            shard=attempt.shard,
            tried=(*self.wanted.tried, attempt.node_id),
            last_node=attempt.node_id,
            awaits_return=may_return and not self._acknowledges,
        )
        return self._retry(now_s, dice)

    def on_withdrawn(self) -> End:
        """The caller took it back before it was sent."""
        if self.phase is not _AT_NODE:
            raise self._illegal("withdrawn")
        self.phase = _OVER
        return WITHDRAWN

    def on_cancelled(self) -> End:
        if self.phase in (_NEW, _OVER):
            raise self._illegal("cancelled")
        self.phase = _OVER
        return CANCELLED

    def on_renewed(self, serial: str) -> PlaceJob:
        """The old job is closed, or was. `serial` makes the new id."""
        if self.phase is not _RENEWING:
            raise self._illegal("renewed")
        self.phase = _PLACING
        if self._renewal is not Renewal.ID_TAKEN:
            self._restarts += 1
        wanted = self.wanted
        self.wanted = msgspec.structs.replace(
            wanted,
            number=1,
            serial=serial,
            job_id="",
            shard=-1,
            tried=self._tried_after_renewal,
            renewal=wanted.renewal + 1,
            attempts_before=wanted.attempts_made,
        )
        return PLACE

    def _may_return(self) -> bool:
        """Whether the node is innocent, and may be asked again when there is no other."""
        if self.is_id_promised and not self._acknowledges:
            return False
        return self.lost in VANISHED or self.lost == (Loss.ACK_TIMEOUT if self._acknowledges else Loss.DUPLICATE)

    def _retry(self, now_s: float, dice: float) -> PlaceJob | GiveUp:
        """Bounded in number, in time, and as a share of all jobs."""
        wanted = self.wanted
        # An attempt that never reached its node does not count as a retry, up to a limit.
        retry = wanted.attempts_made - min(self._unsent, MAX_UNSENT)
        if retry > self.rules.max_retries:
            return self._give_up(DispatchOutcome.FULL)
        pause_s = retry_budget.pause_s(self.lost, max(1, retry), dice)
        if now_s + pause_s >= wanted.give_up_at:
            return self._give_up(DispatchOutcome.FULL, Denial.TOO_LATE)
        if not self.rules.budget.take():
            return self._give_up(DispatchOutcome.FULL, Denial.OVER_BUDGET)
        self.phase = _PLACING
        return PlaceJob(pause_s)

    def _start_over(self) -> Renew | GiveUp:
        """The job is over in Redis, and we do not know how: begin again under another id, if its caller can follow."""
        wanted = self.wanted
        if self.is_call and wanted.number > 1:
            self.phase = _OVER
            return RESULT_GONE
        # The node that had it under this id is not to blame, unless it said so, and may be the only one.
        freed = wanted.last_node if wanted.number > 1 and not self._has_failed else ""
        cause = Renewal.RESULT_LOST if self.lost else Renewal.CLOSED_ELSEWHERE
        return self._renew(Renew(cause), tuple(node for node in wanted.tried if node != freed))

    def _go_back(self) -> PlaceJob | Renew:
        """Every node was tried: ask those again that were not to blame."""
        innocent, self._innocent = self._innocent, {}
        pause_s = RETURNS.pause_s(self._unsent + 1)
        tried = tuple(node for node in self.wanted.tried if node not in innocent)
        if not all(innocent.values()):
            return self._renew(Renew(Renewal.ID_TAKEN, pause_s), tried)
        self.phase = _PLACING
        self.wanted.tried = tried
        return PlaceJob(pause_s)

    def _renew(self, decision: Renew, tried: tuple[str, ...]) -> Renew:
        self.phase = _RENEWING
        self._renewal = decision.cause
        self._tried_after_renewal = tried
        return decision

    def _give_up(self, outcome: DispatchOutcome, denial: Denial | None = None) -> GiveUp:
        self.phase = _OVER
        error, detail = self._why(outcome)
        return GiveUp(error, detail, denial)

    def _why(self, outcome: DispatchOutcome) -> tuple[ErrorCode, str]:
        if self.lost in SILENCE:
            return ErrorCode.JOB_TIMEOUT, "no node answered in time"
        if self.lost:
            made = self.wanted.attempts_made
            which = {1: "the only attempt failed", 2: "both attempts failed, the last one"}
            cause = f" ({self._cause})" if self._cause else ""
            told = f"{which.get(made, f'all {made} attempts failed, the last one')}: {self.lost}{cause}"
            return ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, told
        src, tgt = Pool.parse(self.pool).pair
        match outcome:
            case DispatchOutcome.NOBODY:
                return ErrorCode.NO_CAPABLE_NODE, ""
            case DispatchOutcome.UNFIT:
                preferred = self.preferred_node
                detail = f"{preferred} is not connected or does not serve {src}→{tgt}"
                return ErrorCode.PREFERRED_NODE_NOT_CAPABLE, detail
            case _:
                return ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED, f"every node for {src}→{tgt} is busy"

    def _illegal(self, event: str) -> IllegalEvent:
        return IllegalEvent(f'"{event}" cannot happen to a job that is {self.phase.value}')
