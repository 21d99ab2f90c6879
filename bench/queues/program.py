"""A client or a worker of a Python job queue: `python -P program.py client|worker QUEUE OUTCOME SOCKET`.
Run as a file by whichever Python has that queue, it imports nothing of ours. A client speaks as bench/load.py does.
"""

import asyncio
import json
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import hiredis
import uvloop

OUTCOMES = b"outcomes"
OUTCOMES_TOGETHER = 1_000
WAIT_S = 30.0
READ_BYTES = 2**16
# Threads or tasks of a worker, and what it fetches ahead of them.
ROOM = 1_000
POLL_S = 0.001
MAX_STREAM = 100_000

Loop = asyncio.AbstractEventLoop
Job = Callable[[int], None]


class Reporting:
    """How the caller learns of an outcome for the least CPU: each job writes its number to one list, unanswered."""

    def __init__(self, path: str) -> None:
        self._redis = _connect(path)
        self._redis.sendall(b"CLIENT REPLY OFF\r\n")

    def report(self, number: int) -> None:
        self._redis.sendall(b"RPUSH %s %d\r\n" % (OUTCOMES, number))


class Outcomes:
    """The other end of that list."""

    def __init__(self, path: str) -> None:
        self._redis = _connect(path)
        self._reader = hiredis.Reader()

    def wait(self) -> int:
        """How many jobs are over that nobody has counted yet; at least one."""
        self._redis.sendall(b"BLMPOP %d 1 %s LEFT COUNT %d\r\n" % (WAIT_S, OUTCOMES, OUTCOMES_TOGETHER))
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._redis.recv(READ_BYTES))
        if not isinstance(reply, list):
            raise RuntimeError(f"no outcome within {WAIT_S:g} s" if reply is None else str(reply))
        return len(reply[1])


class Queue:
    """`send` puts jobs into the queue and returns what their outcomes can be asked of."""

    def __init__(self, path: str, keeps_results: bool, loop: Loop, job: Job) -> None:
        self.path = path
        self.url = f"unix://{path}"
        self.keeps_results = keeps_results
        self.loop = loop
        self.job = job

    def send(self, numbers: range) -> list[Any]:
        raise NotImplementedError

    def result(self, handle: Any) -> None:
        """Wait for the outcome as the library offers it."""
        raise NotImplementedError

    def work(self) -> None:
        """Until the process is ended."""
        raise NotImplementedError


class Dramatiq(Queue):
    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker
        from dramatiq.results import Results
        from dramatiq.results.backends import RedisBackend

        self._results = RedisBackend(url=self.url)
        self._broker = RedisBroker(url=self.url)
        if self.keeps_results:
            self._broker.add_middleware(Results(backend=self._results, store_results=True))
        self._actor = dramatiq.actor(self.job, actor_name="job", broker=self._broker)

    def send(self, numbers: range) -> list[Any]:
        return [self._actor.send(number) for number in numbers]

    def result(self, handle: Any) -> None:
        handle.get_result(backend=self._results, block=True, timeout=int(WAIT_S * 1000))

    def work(self) -> None:
        from dramatiq import Worker

        worker = Worker(self._broker, worker_threads=1)
        worker.queue_prefetch = ROOM
        worker.start()
        worker.workers[0].join()


class Celery(Queue):
    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        import celery

        address = f"redis+socket://{self.path}"
        self._app = celery.Celery(
            "bench", broker=address, backend=address if self.keeps_results else None, set_as_current=False
        )
        self._app.conf.update(
            task_ignore_result=not self.keeps_results,
            worker_prefetch_multiplier=ROOM,
            worker_disable_rate_limits=True,
            broker_connection_retry_on_startup=False,
        )
        self._task = self._app.task(self.job, name="job")
        self._producer = self._app.amqp.Producer(self._app.connection())

    def send(self, numbers: range) -> list[Any]:
        return [self._task.apply_async((number,), producer=self._producer) for number in numbers]

    def result(self, handle: Any) -> None:
        handle.get(timeout=WAIT_S)

    def work(self) -> None:
        self._app.Worker(
            pool="solo", loglevel="ERROR", without_gossip=True, without_mingle=True, without_heartbeat=True, quiet=True
        ).start()


class Taskiq(Queue):
    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

        self._broker = RedisStreamBroker(url=self.url, xread_count=ROOM, maxlen=MAX_STREAM)
        if self.keeps_results:
            self._broker = self._broker.with_result_backend(RedisAsyncResultBackend(self.url, keep_results=False))

        async def taken(number: int) -> None:
            self.job(number)

        self._task = self._broker.register_task(taken, task_name="job")
        self.loop.run_until_complete(self._broker.startup())

    def send(self, numbers: range) -> list[Any]:
        return self.loop.run_until_complete(_together([self._task.kiq(number) for number in numbers]))

    def result(self, handle: Any) -> None:
        self.loop.run_until_complete(handle.wait_result(check_interval=POLL_S, timeout=WAIT_S))

    def work(self) -> None:
        from taskiq.api import run_receiver_task

        self.loop.run_until_complete(
            run_receiver_task(self._broker, validate_params=False, max_async_tasks=ROOM, max_prefetch=ROOM)
        )


class Arq(Queue):
    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        from arq.connections import RedisSettings, create_pool

        self._settings = RedisSettings(unix_socket_path=self.path)
        self._pool = self.loop.run_until_complete(create_pool(self._settings))

    def send(self, numbers: range) -> list[Any]:
        return self.loop.run_until_complete(_together([self._pool.enqueue_job("job", number) for number in numbers]))

    async def _taken(self, _: dict[str, Any], number: int) -> None:
        self.job(number)

    def result(self, handle: Any) -> None:
        self.loop.run_until_complete(handle.result(timeout=WAIT_S, poll_delay=POLL_S))

    def work(self) -> None:
        from arq.worker import Worker, func

        worker = Worker(
            functions=[func(self._taken, name="job")],
            redis_settings=self._settings,
            max_jobs=ROOM,
            keep_result=60 if self.keeps_results else 0,
            poll_delay=POLL_S,
            handle_signals=False,
            log_results=False,
        )
        self.loop.run_until_complete(worker.main())


QUEUES: dict[str, type[Queue]] = {"arq": Arq, "celery": Celery, "dramatiq": Dramatiq, "taskiq-redis": Taskiq}


class Client:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._outcomes = Outcomes(queue.path)
        self._handles: deque[Any] = deque()

    def carry_out(self, jobs: int, in_flight: int) -> dict[str, float]:
        """So many jobs, never more than `in_flight` under way; returns when the last outcome is known."""
        sent = over = 0
        cpu_s, began_s = time.process_time(), time.perf_counter()
        while over < jobs:
            due = min(jobs - sent, in_flight - (sent - over))
            self._handles.extend(self._queue.send(range(sent, sent + due)))
            sent += due
            over += self._wait()
        return {"jobs": jobs, "took_s": time.perf_counter() - began_s, "cpu_s": time.process_time() - cpu_s}

    def _wait(self) -> int:
        if not self._queue.keeps_results:
            self._handles.clear()
            return self._outcomes.wait()
        self._queue.result(self._handles.popleft())
        return 1


def obey(client: Client) -> None:
    _tell({})
    for line in sys.stdin:
        order = json.loads(line)
        _tell(client.carry_out(order["jobs"], order["in_flight"]))


async def _together(sending: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    return await asyncio.gather(*sending)


def _do_nothing(_: int) -> None:
    pass


def _tell(tally: dict[str, float]) -> None:
    sys.stdout.write(json.dumps(tally) + "\n")
    sys.stdout.flush()


def _connect(path: str) -> socket.socket:
    redis = socket.socket(socket.AF_UNIX)
    redis.connect(path)
    return redis


def main() -> None:
    role, name, outcome, path = sys.argv[1:]
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    keeps_results = outcome == "result"

    def report(number: int) -> None:
        reporting.report(number)

    if role == "client" or keeps_results:
        job: Job = _do_nothing
    else:
        reporting = Reporting(path)
        job = report
    queue = QUEUES[name](path, keeps_results, loop, job)
    if role == "client":
        obey(Client(queue))
    else:
        queue.work()


if __name__ == "__main__":
    main()
