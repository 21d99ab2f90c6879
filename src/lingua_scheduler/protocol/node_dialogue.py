"""The dialogue of a node's connection: which messages are legal when, and which may be handled out of turn; sans-IO."""

from lingua_sdk.protocol.node import (
    AsrPartial,
    JobAck,
    JobResult,
    JobStarted,
    NodeHeartbeat,
    NodeIncoming,
    NodeRegister,
)

# Existing nodes may beat before they register when they come back.
_BEFORE_REGISTERING = (NodeRegister, NodeHeartbeat)
# Message types about jobs; built once, because every frame is compared with it.
_REPORTS = (JobResult, JobAck, JobStarted, AsrPartial)

# More than a node has slots. What comes on top waits in line, then in the node's own socket.
MAX_UNDER_WAY = 256


class NodeDialogue:
    """One connection of a node: which of its messages are legal, which pass at once, which wait in line.

    Reports about jobs pass at once, those of each job in the order in which they came. Everything else waits until all
    that came before has been answered, and everything behind it waits too.

    Usually Redis keeps the order by itself. But a call that it redirected, or whose script it had forgotten, is made
    again, and would come behind a `job_started` that was sent right after it: the node would have to drop what it
    runs. So the reports of a job wait while its acknowledgement is unanswered. A result ends its attempt in any state,
    so it may overtake a `job_started`, and be repeated after the reports of other jobs.
    """

    __slots__ = ("_unanswered", "is_registered", "under_way")

    def __init__(self) -> None:
        self.is_registered = False
        # Reports that have not been answered yet, or whose consequences have to be waited for.
        self.under_way = 0
        # Jobs whose acknowledgement is one of them.
        self._unanswered: set[str] = set()

    def refusal(self, message: NodeIncoming) -> str | None:
        """Why this message is not legal now, or None."""
        if not self.is_registered and not isinstance(message, _BEFORE_REGISTERING):
            return "not registered: send node_register before messages about jobs"
        return None

    @property
    def is_open(self) -> bool:
        """Whether any message may pass at once."""
        return self.is_registered and self.under_way < MAX_UNDER_WAY

    def passes(self, message: NodeIncoming) -> bool:
        """Whether it may be handled before those under way have been answered."""
        return (
            self.is_registered
            and self.under_way < MAX_UNDER_WAY
            and isinstance(message, _REPORTS)
            and message.job_id not in self._unanswered
        )

    def asked(self, message: JobResult | JobAck | JobStarted) -> None:
        """A report was put to Redis; `answered` follows."""
        self.under_way += 1
        if isinstance(message, JobAck):
            self._unanswered.add(message.job_id)

    def answered(self, message: JobResult | JobAck | JobStarted) -> None:
        """Its answer came, and nothing that follows from it has to be waited for."""
        self.under_way -= 1
        if isinstance(message, JobAck):
            self._unanswered.discard(message.job_id)
