"""The id of a job, which names the shard it began in, and the handle by which an HTTP caller knows it."""

import re
from typing import NamedTuple

# Ids become parts of keys and leases, so nothing else is taken for one.
JOB_ID = re.compile(r"job-(\d{1,4})-([A-Za-z0-9_-]{1,100})", re.ASCII)
# Every report of a node comes by here.
match_job_id = JOB_ID.fullmatch


def spelled(shard: int, serial: str) -> str:
    """The id as text. Every job has one made: a value in between would cost more than the text."""
    return f"job-{shard}-{serial}"


class JobId(NamedTuple):
    shard: int
    serial: str

    def __str__(self) -> str:
        return spelled(self.shard, self.serial)

    @classmethod
    def parse(cls, text: str) -> "JobId | None":
        """None when this is no id that we could have made."""
        found = match_job_id(text)
        return None if found is None else cls(int(found[1]), found[2])


class JobHandle(NamedTuple):
    """What the caller of an HTTP job knows it by: a request for the result must name the secret too."""

    job_id: str
    secret: str = ""

    def __str__(self) -> str:
        return f"{self.job_id}.{self.secret}" if self.secret else self.job_id

    @classmethod
    def parse(cls, text: str) -> "JobHandle":
        """An id without a secret is a handle too."""
        return cls(*text.partition(".")[::2])


def is_job_id(text: str) -> bool:
    return match_job_id(text) is not None
