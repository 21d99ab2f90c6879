"""Each kind of key about access and private nodes is deleted in turn while a tenant talks: its callers stay let in, its
speech stays at its own node, and strangers stay out."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler import app
from lingua_scheduler.assembly import access
from lingua_scheduler.domain.access.credentials import tenant_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.services.access import book
from lingua_scheduler.store.keys import TABLE
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.lost_keys import are_back, delete, is_any
from tests.support.tenants import tenants_at
from tests.support.waiting import until

KINDS = [doc for doc in TABLE if any(part in doc.pattern for part in ("{auth}", "{audit}", "@<tenant>", ":claim"))]
# Of one login or one visit: who needs it asks again.
ONCE = ("{auth}:login:", "{auth}:flow:", "{auth}:code:", "{auth}:pair:")
# Written when there is something new to say: with the next connection, the next entry of the log, the next change.
WITH_THE_NEXT = (":claim", "{audit}:log", "{audit}:head", "{auth}:revision")


async def test_every_kind_of_key_about_access_may_be_lost(
    redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "STOCK_S", 0.2)
    monkeypatch.setattr(access, "KEY_USES_S", 0.3)
    monkeypatch.setattr(book, "WHOLE_EVERY", 2)
    settings = {"auth__refresh_ms": 200, "pools__private_only": ["acme"], "pools__refresh_ms": 1_000}
    async with tenants_at(redis.url, tmp_path, **settings) as tenants:
        own, public = await tenants.node("own", "acme", is_private=True), await tenants.node("public")
        revoked = await tenants.key(KeyKind.SERVICE, tenant="acme")
        await tenants.scheduler.credentials.end(revoked.credential.id, at_ms=0)
        await tenants.scheduler.credentials.void(tenant_name("beta"), 1, int(time.time() * 1000) + 600_000)
        await tenants.scheduler.credentials.add_issuer(Issuer(id="k1", issuer="https://acme.example"))
        key = await tenants.key(KeyKind.SERVICE, tenant="acme")
        client = await tenants.client_with(key)
        said = 0
        for doc in KINDS:
            if doc.pattern.partition("…:")[2].startswith(ONCE):
                continue
            await until(partial(is_any, tenants.store, doc), what=f"{doc.pattern} is there")
            lost, began_s = await delete(tenants.store, doc), time.monotonic()
            for _ in range(3):
                await client.utterance(said)
                said += 1
                assert (await client.outcome())["type"] == "translation_result", doc.pattern
            await (await tenants.client_with(key)).socket.close()
            assert (await tenants.ask("GET", "/v1/whoami", revoked))[0] == 401
            if not doc.pattern.endswith(WITH_THE_NEXT):
                await until(partial(are_back, tenants.store, lost), what=f"{doc.pattern} written again")
            print(f"{doc.pattern:50} {len(lost)} lost, whole after {time.monotonic() - began_s:.2f} s")
            assert (await tenants.ask("GET", "/v1/audit"))[0] == 200
        assert (len(own.jobs), len(public.jobs)) == (said, 0)
