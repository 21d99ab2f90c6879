"""Wrong credentials, counted per address and key: after too many, those that are wrong must wait.

A right one comes in all the same, so that a stranger behind the same address locks no caller out."""

from lingua_scheduler.clock import Clock
from lingua_scheduler.domain.access.principals import Denied
from lingua_scheduler.domain.guards.addresses import meter_of, read_address
from lingua_scheduler.domain.guards.penalties import Penalties
from lingua_sdk.domain.errors import HttpCode


class Guesses:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._penalties = Penalties()

    def unread(self, name: str) -> Denied | None:
        """Why a token that was never verified is not looked at; None if it is. A look at a signature costs as much CPU
        time as the rest of a refusal, so while a name must wait it has only some of them."""
        if not name or self._penalties.may_look(name, self._clock()):
            return None
        return _wait(1, "too many wrong credentials from this address at once; try again in a second")

    def counted(self, denied: Denied, name: str) -> Denied:
        """What is answered to a credential that was not accepted."""
        # An expired one is no guess: pages go on sending theirs for hours, and others share their address.
        if not name or denied.code != HttpCode.UNAUTHENTICATED:
            return denied
        if wait_s := self._penalties.wait_s(name, self._clock()):
            detail = "too many wrong credentials from this address, and this one is wrong too; try again later"
            return _wait(int(wait_s) + 1, detail)
        self._penalties.failed(name, self._clock())
        return denied


def name_of(address: str, key_id: str = "") -> str:
    """Under which failures are counted; `key_id` is of a key that exists. All others of an address count together."""
    known = read_address(address)
    return f"{address if known is None else meter_of(known)} {key_id}"


def _wait(seconds: int, detail: str) -> Denied:
    return Denied(429, HttpCode.RATE_LIMITED.value, detail, seconds, reason="too many failures")
