"""The former name of `lingua_sdk.protocol.node`, for one more release."""

import warnings

from lingua_sdk.protocol.node import JobAssign

__all__ = ["JobAssign"]

warnings.warn(
    "lingua_scheduler.protocol.node is now lingua_sdk.protocol.node, and will be removed in release 0.3",
    DeprecationWarning,
    stacklevel=2,
)
