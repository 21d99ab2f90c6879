"""Roles of operators without a key: those who log in through an identity provider, and those whom a proxy names."""

from lingua_scheduler.domain.access.logins import Login
from lingua_scheduler.domain.access.people import (
    OIDC,
    PROXY,
    ForwardedUser,
    Person,
    ProvenIdentity,
    operator_of,
    subject_of,
)
from lingua_scheduler.domain.access.principals import Denied, Principal
from lingua_scheduler.domain.access.role_tables import RoleTable
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_sdk.domain.errors import HttpCode

NO_ROLE = (
    "none of your groups has a role at this scheduler; ask its operators to add one to the setting auth.oidc.roles"
)


class People:
    def __init__(self, settings: AuthSettings) -> None:
        self._issuer = settings.oidc.issuer
        self._table = RoleTable(settings.oidc.roles)
        self._idle_ms = settings.login_idle_ms

    def person(self, identity: ProvenIdentity) -> Person | None:
        """None if none of their groups has a role."""
        group = self._table.first(identity.groups)
        if group is None:
            return None
        return Person(issuer=self._issuer, subject=subject_of(OIDC, identity.subject), group=group)

    def by_login(self, login: Login) -> Principal | None:
        """With the role that the group has now; None if it has none any more, or the provider is another one."""
        person = login.person
        grant = self._table.grant(person.group) if person is not None and person.issuer == self._issuer else None
        if person is None or grant is None:
            return None
        return operator_of(person.subject, grant, login.begun_ms, login.expires_ms, login.id)

    def by_proxy(self, user: ForwardedUser, now_ms: int) -> Principal | Denied:
        """The proxy is asked again with each request; a stream must come again after a while."""
        group = self._table.first(user.groups)
        grant = None if group is None else self._table.grant(group)
        if grant is None:
            return Denied(403, HttpCode.PERMISSION_DENIED.value, NO_ROLE, reason="no role")
        return operator_of(subject_of(PROXY, user.name), grant, now_ms, now_ms + self._idle_ms)
