"""What a caller is told of itself over HTTP."""

import msgspec


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """How the scheduler sees the caller."""

    # local, client, service, node, operator or metrics.
    kind: str
    tenant: str
    # Empty where no key was needed.
    key_id: str
    # The app's name for its user, of a token.
    subject: str
    # Of operators: viewer, operator, admin or auditor.
    role: str | None
    scopes: list[str]
    # Milliseconds since 1970; 0 = never.
    expires_ms: int
    # By a cookie, and so it can log out.
    is_login: bool = False
    # The setting auth.mode: in mode off, callers need no credential wherever they are.
    auth_mode: str = ""
    # Of a token for one room: its code, and whether it may only listen there.
    room_code: str = ""
    is_listener: bool = False
