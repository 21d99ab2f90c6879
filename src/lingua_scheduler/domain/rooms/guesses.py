"""Tries at room codes: what became of one, and which tenants have so many wrong ones that codes are being guessed."""

from enum import StrEnum

# An alarm goes on for so long after the last sign.
ALARM_S = 300.0
# Tenants that are remembered; the oldest are forgotten first.
MAX_TENANTS = 100


class GuessOutcome(StrEnum):
    """First words of the replies of the scripts about tries."""

    TAKEN = "taken"
    SPENT = "spent"  # this address has named too many wrong codes
    GUARDED = "guarded"  # all addresses have, and this one had its try
    RETURNED = "returned"
    GONE = "gone"


class GuessedTenants:
    """Tenants in which codes are being guessed, and how many wrong ones were named in a minute at most."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def saw(self, tenant: str, wrong: int, now_s: float) -> bool:
        """Whether it is news."""
        before = self.at(now_s)
        self._seen.pop(tenant, None)
        self._seen[tenant] = (max(wrong, before.get(tenant, 0)), now_s)
        if len(self._seen) > MAX_TENANTS:
            del self._seen[next(iter(self._seen))]
        return tenant not in before

    def at(self, now_s: float) -> dict[str, int]:
        return {tenant: wrong for tenant, (wrong, at_s) in self._seen.items() if now_s - at_s < ALARM_S}
