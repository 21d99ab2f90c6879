"""What is served at the public port and at the internal one."""

import pytest

from lingua_scheduler.domain.access.scopes import ANYTHING, EVERYTHING, LANGUAGES, OPEN, Needs, Scope
from lingua_scheduler.domain.access.sides import Side, served

JOBS = (Scope.FLEET_READ, Scope.DISPATCH_CALL)


def test_one_port_serves_everything_as_it_is_declared() -> None:
    for needs in (OPEN, JOBS, ANYTHING, (Scope.METRICS_READ,)):
        assert served(Side.WHOLE, "/dashboard", needs) == needs


@pytest.mark.parametrize(
    ("path", "needs", "public", "internal"),
    [
        ("/health", OPEN, OPEN, OPEN),
        ("/docs", OPEN, OPEN, OPEN),
        ("/dashboard", OPEN, (), OPEN),
        ("/dashboard/{name}", OPEN, (), OPEN),
        ("/v1/login", OPEN, (), OPEN),
        ("/v1/logout", OPEN, (), OPEN),
        ("/talk/", OPEN, OPEN, ()),
        ("/room/{name}", OPEN, OPEN, ()),
        ("/metrics", (Scope.METRICS_READ,), (), OPEN),
        ("/v1/watch", (Scope.FLEET_READ,), (), (Scope.FLEET_READ,)),
        ("/v1/keys", (Scope.KEYS_WRITE,), (), (Scope.KEYS_WRITE,)),
        ("/v1/audit", (Scope.AUDIT_READ,), (), (Scope.AUDIT_READ,)),
        ("/ws/session", (Scope.SESSION_OPEN,), (Scope.SESSION_OPEN,), ()),
        ("/ws/node", (Scope.NODE_REGISTER,), (Scope.NODE_REGISTER,), ()),
        ("/v1/nodes/enrol", (Scope.NODE_ENROL,), (Scope.NODE_ENROL,), ()),
        ("/v1/tokens", (Scope.TOKENS_MINT,), (Scope.TOKENS_MINT,), (Scope.TOKENS_MINT,)),
        # Each side serves its own callers.
        ("/v1/jobs", JOBS, (Scope.DISPATCH_CALL,), (Scope.FLEET_READ,)),
        ("/v1/pools", LANGUAGES, (Scope.SESSION_OPEN, Scope.DISPATCH_CALL), (Scope.FLEET_READ,)),
    ],
)
def test_each_side_serves_its_own(path: str, needs: Needs, public: Needs, internal: Needs) -> None:
    assert served(Side.PUBLIC, path, needs) == public
    assert served(Side.INTERNAL, path, needs) == internal


def test_every_scope_counts_somewhere() -> None:
    for scope in EVERYTHING:
        assert served(Side.PUBLIC, "/x", (scope,)) or served(Side.INTERNAL, "/x", (scope,)), scope
