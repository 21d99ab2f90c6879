"""Child processes that end when told to, and when their parent is gone."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1

_forking_pid = 0


def _remember_forking_pid() -> None:
    global _forking_pid
    _forking_pid = os.getpid()


def _find_prctl() -> Callable[[int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong)
    prctl.restype = ctypes.c_int
    return prctl


# All that the child needs is found before the fork: between fork and exec little is safe to do.
_prctl = _find_prctl()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_remember_forking_pid)


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel sends the child SIGTERM when its parent is gone (Linux; elsewhere nothing).

    The kernel's "parent" is the thread that forked, so start children from a thread that stays.
    """
    if _prctl is None:
        return
    # A handler of the parent's would swallow a SIGTERM that comes before exec; "ignore" would outlast exec.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != _forking_pid:  # it died before we asked, so no signal will ever come
        os._exit(128 + signal.SIGTERM)


async def stop(process: asyncio.subprocess.Process, grace_s: float) -> int:
    """SIGTERM, and SIGKILL after `grace_s`; return the exit code. Harmless when the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(grace_s):
            return await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
