"""Every route says who may use it, and exactly those may."""

from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from lingua_scheduler.app import Scheduler
from lingua_scheduler.clock import SYSTEM_CLOCK
from lingua_scheduler.console.needs import PAGES, RouteNeeds
from lingua_scheduler.console.pages import Pages
from lingua_scheduler.domain.access.scopes import ANYTHING, LANGUAGES, OPEN, Needs, Scope
from lingua_scheduler.services.access.guesses import Guesses
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.access import CALLERS, guarded_scheduler, made_key
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess

OPERATIONS = Scheduler(Settings(), Store("redis://nowhere", key_prefix="lingua")).operations
NOBODY, WRONG = "none", "wrong"


def routes_of(scheduler: Scheduler) -> list[tuple[str, str]]:
    found = []
    for route in scheduler._runner.app.router.routes():
        assert route.resource is not None
        found.append((route.method, route.resource.canonical))
    return found


def test_every_route_declares_what_it_needs() -> None:
    scheduler = Scheduler(Settings(), Store("redis://nowhere", key_prefix="lingua"))
    needs, routes = RouteNeeds(scheduler.operations), routes_of(scheduler)
    assert len(routes) > 60
    assert [route for route in routes if needs.of(*route) is None] == []
    # And nothing is declared that is not there.
    assert {path for _, path in routes} == {*PAGES, *(operation.path for operation in scheduler.operations)}


def test_what_is_open_is_a_short_list_without_data() -> None:
    # Logging in and out, how to log in, and public keys.
    open_ones = [operation.path for operation in OPERATIONS if operation.needs == OPEN]
    assert open_ones == ["/v1/login", "/v1/logout", "/v1/login/offers", "/.well-known/jwks.json"]
    assert {path for path, needs in PAGES.items() if needs != OPEN} == {
        "/metrics",
        "/v1/watch",
        "/ws/session",
        "/ws/node",
    }


def test_the_scopes_are_those_of_the_design() -> None:
    found: dict[Needs, set[str]] = {}
    for operation in OPERATIONS:
        found.setdefault(operation.needs, set()).add(f"{operation.method} {operation.path}")
    assert found.keys() == {
        (Scope.FLEET_READ,),
        (Scope.FLEET_OPERATE,),
        (Scope.CLUSTER_READ,),
        (Scope.CLUSTER_OPERATE,),
        (Scope.DISPATCH_CALL,),
        (Scope.NODE_REGISTER,),
        (Scope.NODE_ENROL,),
        (Scope.KEYS_READ,),
        (Scope.KEYS_WRITE,),
        (Scope.TOKENS_MINT,),
        (Scope.AUDIT_READ,),
        LANGUAGES,
        (Scope.FLEET_READ, Scope.DISPATCH_CALL),
        (Scope.FLEET_OPERATE, Scope.DISPATCH_CALL),
        (Scope.FLEET_READ, Scope.METRICS_READ),
        ANYTHING,
        OPEN,
    }
    assert found[ANYTHING] == {"GET /v1/whoami"}
    assert found[(Scope.NODE_ENROL,)] == {"POST /v1/nodes/enrol"}
    # Operators for all jobs, callers for their own.
    assert found[(Scope.FLEET_READ, Scope.DISPATCH_CALL)] == {
        "GET /v1/jobs",
        "GET /v1/jobs/{job_id}",
        "GET /v1/jobs/{job_id}/explain",
    }
    assert found[(Scope.FLEET_OPERATE, Scope.DISPATCH_CALL)] == {"POST /v1/jobs/{job_id}/cancel"}
    # Operators, and autoscalers with a key for metrics alone.
    assert found[(Scope.FLEET_READ, Scope.METRICS_READ)] == {"GET /v1/scaling"}
    # A code logs in who asks for it, with the rights of its key.
    codes = {"POST /v1/login/codes"}
    assert all(line.startswith("GET ") for line in (found[(Scope.FLEET_READ,)] | found[LANGUAGES]) - codes)
    assert found[(Scope.FLEET_OPERATE,)] == {
        *(f"POST /v1/nodes/{{node_id}}/{verb}" for verb in ("drain", "resume", "release", "evict", "pair")),
        "POST /v1/alarms",
        "POST /v1/rooms/{room_id}/close",
    }
    # What belongs to no tenant.
    assert found[(Scope.CLUSTER_READ,)] == {
        "GET /v1/status",
        "GET /v1/instances",
        "GET /v1/dead-letters",
        "GET /api/v1/cluster",
    }
    assert found[(Scope.CLUSTER_OPERATE,)] == {"POST /v1/dead-letters/replay", "POST /v1/dead-letters/purge"}
    assert found[(Scope.KEYS_READ,)] == {
        "GET /v1/keys",
        "GET /v1/keys/{key_id}",
        "GET /v1/issuers",
        "GET /v1/enrolments",
    }
    assert found[(Scope.KEYS_WRITE,)] == {
        "POST /v1/keys",
        "POST /v1/keys/{key_id}/rotate",
        "POST /v1/keys/{key_id}/revoke",
        "POST /v1/issuers",
        "POST /v1/issuers/{issuer_id}/revoke",
        "POST /v1/revocations",
        *(f"POST /v1/nodes/{{node_id}}/{verb}" for verb in ("approve", "ban")),
    }
    assert found[(Scope.AUDIT_READ,)] == {"GET /v1/audit"}
    assert found[(Scope.TOKENS_MINT,)] == {"POST /v1/tokens", "POST /v1/tokens/talk"}
    assert found[(Scope.DISPATCH_CALL,)] == {
        "POST /v1/dispatch/f2f",
        "POST /v1/translate",
        "GET /v1/jobs/{job_id}/result",
    }


async def test_every_operation_and_every_kind_of_caller(server: RedisProcess, tmp_path: Path) -> None:
    """The table is made of what the operations declare."""
    keys = {who: make() for who, make in CALLERS.items()}
    headers = {who: key.header for who, key in keys.items()}
    headers |= {NOBODY: {}, WRONG: made_key(KeyKind.OPERATOR).header}
    rows = [(operation.method, operation.path, operation.needs) for operation in OPERATIONS]
    rows += [("GET", path, needs) for path, needs in PAGES.items()]
    seen: set[int] = set()
    async with (
        guarded_scheduler(server.url, tmp_path, *keys.values()) as (scheduler, _),
        aiohttp.ClientSession(f"http://127.0.0.1:{scheduler.port}") as http,
    ):
        for method, path, needs in rows:
            for who, sent in headers.items():
                scheduler._door._doorkeeper._guesses = Guesses(SYSTEM_CLOCK)
                url = path.replace("{src}", "en").replace("{tgt}", "zh").replace("{", "").replace("}", "")
                async with http.request(method, url, headers=sent, allow_redirects=False) as response:
                    seen.add(response.status)
                    # Static files are asked for again each time; no cache keeps what may be speech or a secret.
                    assert response.headers["Cache-Control"] in ("no-store", "no-cache"), (path, who)
                    assert response.headers["X-Content-Type-Options"] == "nosniff", (path, who)
                    if needs == OPEN:
                        assert response.status not in (401, 403), (path, who)
                    elif who in (NOBODY, WRONG):
                        assert response.status == 401, (path, who)
                        assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
                    elif keys[who].credential.scopes.isdisjoint(needs):
                        assert response.status == 403, (path, who)
                        body = await response.json()
                        assert body["error"] == "PERMISSION_DENIED"
                        assert all(scope.value in body["detail"] for scope in needs)
                    else:
                        assert response.status not in (401, 403), (path, who)
    assert {200, 401, 403, 404} <= seen


async def test_a_route_that_declares_nothing_is_refused(server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []

    async def secret(request: web.Request) -> web.Response:
        reached.append(request.path)
        return web.Response(text="secret")

    add_to = Pages.add_to

    def add_more(self: Pages, app: web.Application) -> None:
        app.router.add_get("/forgotten", secret)
        add_to(self, app)

    monkeypatch.setattr(Pages, "add_to", add_more)
    async with scheduler_on(server.url) as (scheduler, _), aiohttp.ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{scheduler.port}/forgotten") as response:
            assert (response.status, (await response.json())["error"]) == (403, "PERMISSION_DENIED")
    assert not reached
