"""Tells a node that it is quarantined, or no longer is, so that its owner finds the reason in the node's own log."""

from lingua_scheduler.domain.jobs.quarantine import QuarantineVerdict
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_sdk.protocol.node import NodeControl


class QuarantineNotices:
    """Only nodes that announce `quarantine` are told: others may not know the commands."""

    def __init__(self, links: NodeLinks) -> None:
        self._links = links

    def tell(self, node_id: str, reason: str, verdict: QuarantineVerdict) -> None:
        """Nothing is sent to a node of another instance; it is told when it registers again."""
        link = self._links.find(node_id)
        if link is None:
            return
        if verdict is QuarantineVerdict.QUARANTINED:
            _post(link, verdict, f"its jobs failed, the last one with {reason}; {_next_step(node_id)}")
        else:
            link.quarantined_until_ms = 0
            _post(link, verdict, "a job succeeded; the node gets jobs as before")


def remind(link: NodeLink, now_ms: float) -> None:
    """A node that registers may still be quarantined, because jobs of its former connection failed."""
    if not link.quarantined_until_ms:
        return
    left_s = max(0, round((link.quarantined_until_ms - now_ms) / 1000))
    when = f"its next job, in {left_s} s at the earliest, is a probe" if left_s else "its next job is a probe"
    _post(link, QuarantineVerdict.QUARANTINED, f"its jobs failed before it registered; {when}")


def _next_step(node_id: str) -> str:
    return f"correct the cause and restart the node, or run: lingua release {node_id}"


def _post(link: NodeLink, verdict: QuarantineVerdict, reason: str) -> None:
    if link.profile.features.quarantine:
        link.peer.post(NodeControl(command=verdict.value, reason=reason))
