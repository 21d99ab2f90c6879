"""What every route needs: operations say it themselves, all other routes are listed here."""

from collections.abc import Iterable

from aiohttp import hdrs

from lingua_scheduler.console.operations import Operation
from lingua_scheduler.domain.access.scopes import OPEN, Needs, Scope

# Pages hold no data of their own: what they show they fetch, with their caller's credential.
PAGES: dict[str, Needs] = {
    "/": OPEN,
    "/health": OPEN,
    "/health/ready": OPEN,
    "/docs": OPEN,
    "/docs/messages": OPEN,
    "/docs/browse": OPEN,
    "/docs/browse/": OPEN,
    "/docs/browse/{name}": OPEN,
    "/openapi.json": OPEN,
    "/asyncapi.json": OPEN,
    "/messages.schema.json": OPEN,
    "/shared/{name}": OPEN,
    "/dashboard": OPEN,
    "/dashboard/": OPEN,
    "/dashboard/{name}": OPEN,
    "/talk": OPEN,
    "/talk/": OPEN,
    "/talk/{name}": OPEN,
    "/room": OPEN,
    "/room/": OPEN,
    "/room/{name}": OPEN,
    "/metrics": (Scope.METRICS_READ,),
    "/v1/login/oidc": OPEN,
    "/v1/login/oidc/callback": OPEN,
    "/v1/watch": (Scope.FLEET_READ,),
    "/ws/session": (Scope.SESSION_OPEN,),
    "/ws/node": (Scope.NODE_REGISTER,),
}


class RouteNeeds:
    """`operations` may still grow: it is read with the first request."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._operations = operations
        self._known: dict[tuple[str, str], Needs] = {}

    def of(self, method: str, path: str) -> Needs | None:
        """By the path of the route, such as `/v1/nodes/{node_id}`. None if it is not declared."""
        if not self._known:
            self._known = self._read()
        return self._known.get((method, path))

    def _read(self) -> dict[tuple[str, str], Needs]:
        found = {(hdrs.METH_GET, path): needs for path, needs in PAGES.items()}
        found |= {(operation.method, operation.path): operation.needs for operation in self._operations}
        # HEAD is a GET without the body.
        found |= {(hdrs.METH_HEAD, path): needs for (method, path), needs in found.items() if method == hdrs.METH_GET}
        # Browsers ask without a credential whether they may send one.
        return found | {
            (hdrs.METH_OPTIONS, operation.path): OPEN for operation in self._operations if operation.is_for_apps
        }
