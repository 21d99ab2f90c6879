"""What a peer may say when; sans-IO."""

from enum import Enum, auto

from lingua_scheduler.protocol.node import NodeHeartbeat, NodeIncoming, NodeRegister


class NodePhase(Enum):
    CONNECTED = auto()
    REGISTERED = auto()


# Existing nodes may beat before they register when they come back.
_BEFORE_REGISTERING = (NodeRegister, NodeHeartbeat)


def node_refusal(phase: NodePhase, message: NodeIncoming) -> str | None:
    """Why this message is not legal in this phase, or None."""
    if phase is NodePhase.CONNECTED and not isinstance(message, _BEFORE_REGISTERING):
        return "register first: send node_register before anything about jobs"
    return None
