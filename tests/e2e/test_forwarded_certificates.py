"""nginx verifies the certificates of nodes and forwards them, with the very lines of docs/joining.md."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk.domain.key_texts import KeyKind
from lingua_sdk.processes import die_with_parent, stop
from tests.support.access import guarded_scheduler, made_key
from tests.support.certificates import NODE_URI, Authority, CertFiles
from tests.support.proxies import COMMANDS
from tests.support.servers import RedisProcess
from tests.support.waiting import until
from tools import docs

SHOWN = re.compile(r"^```nginx\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIG = """
events {{}}
http {{
    access_log off;
    {paths}
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {files.cert};
        ssl_certificate_key {files.key};
        location / {{
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
            proxy_set_header X-Forwarded-For $remote_addr;
            {header}
            proxy_pass http://127.0.0.1:{behind};
        }}
        {verified}
    }}
}}
"""


@asynccontextmanager
async def nginx(folder: Path, authority: Authority, behind: int) -> AsyncIterator[int]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not on this machine")
    (lines,) = SHOWN.findall((docs.DOCS / "joining.md").read_text("utf-8"))
    *verified, header = lines.replace("/etc/nginx/nodes-ca.crt", str(authority.file)).splitlines()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    text = CONFIG.format(
        paths=" ".join(f"{kind}_temp_path {folder / kind};" for kind in kinds),
        port=(port := free_port()),
        files=authority.serve(),
        header=header,
        behind=behind,
        verified=" ".join(verified),
    )
    (config := folder / "nginx.conf").write_text(text)
    with (folder / "nginx.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *COMMANDS["nginx"](program, config, folder), stdout=log, stderr=log, preexec_fn=die_with_parent
        )
    try:
        yield port
    finally:
        await stop(process, 5.0)


async def knock(port: int, authority: Authority, shown: CertFiles | None, **headers: str) -> int:
    """How the handshake of a node is answered; 0 if there is no answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as http:
        try:
            url = f"wss://localhost:{port}/ws/node"
            async with http.ws_connect(url, ssl=authority.trusted(shown), headers=named):
                return 101
        except aiohttp.WSServerHandshakeError as refused:
            return refused.status
        except (aiohttp.ClientError, ConnectionError):
            return 0


async def test_nginx_forwards_certificates_as_the_page_says(server: RedisProcess, tmp_path: Path) -> None:
    authority, key = Authority(tmp_path / "authority"), made_key(KeyKind.NODE, node_id="gpu-7")
    trusting = {
        "server__trusted_proxies": ("127.0.0.1",),
        "server__client_cert_header": True,
        "server__allowed_hosts": ("*",),
    }
    async with guarded_scheduler(server.url, tmp_path, key, **trusting) as (scheduler, _):
        async with nginx(tmp_path, authority, scheduler.port) as port:
            own, other = authority.node(NODE_URI), authority.node("spiffe://other/default/node/gpu-7", name="other")
            await until(lambda: knock(port, authority, None), what="nginx answers")
            assert await knock(port, authority, own) == 101
            assert await knock(port, authority, other) == 401
            assert await knock(port, authority, None) == 401
            # What a caller says of itself is replaced.
            assert await knock(port, authority, None, X_Forwarded_Client_Cert=f"URI={NODE_URI}") == 401
            stranger = Authority(tmp_path / "stranger").node(NODE_URI)
            assert await knock(port, authority, stranger) in (0, 400)
