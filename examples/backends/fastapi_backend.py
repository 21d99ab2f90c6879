"""An app's backend that gives its logged-in users tokens for the scheduler: uvicorn fastapi_backend:app

LINGUA_URL is the scheduler, LINGUA_KEY a service key; LINGUA_PUBLIC_URL is the scheduler for browsers, if it differs.
With LINGUA_SIGNING_KEY, a file with an Ed25519 private key, it signs the tokens itself; LINGUA_KID, LINGUA_ISSUER and
LINGUA_TENANT are those of `lingua keys issuer add`."""

import os
import time
from pathlib import Path
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

TTL_S = 900
HERE = Path(__file__).parent

app = FastAPI()
# The JavaScript client, for the page.
app.mount("/client", StaticFiles(directory=HERE / "node_modules/@lingua-scheduler/client/dist", check_dir=False))


def user(authorization: Annotated[str, Header()] = "") -> str:
    """The user who is logged in. Replace this by the login of your app: a session cookie, OAuth …"""
    name = authorization.removeprefix("Bearer demo-")
    if not authorization.startswith("Bearer demo-") or not name:
        raise HTTPException(401, "log in first")
    return name


@app.post("/lingua-token")
async def lingua_token(name: Annotated[str, Depends(user)]) -> dict[str, str]:
    signing_key = os.environ.get("LINGUA_SIGNING_KEY")
    token = signed(name, Path(signing_key).read_text()) if signing_key else await asked(name)
    # Where browsers reach the scheduler, if that is another address than the backend's.
    return {"token": token, "url": os.environ.get("LINGUA_PUBLIC_URL") or os.environ["LINGUA_URL"]}


@app.get("/")
async def page() -> FileResponse:
    return FileResponse(HERE / "page.html")


async def asked(name: str) -> str:
    """The scheduler makes the token. No library for tokens is needed, and the service key stays here."""
    wish = {"subject": name, "grants": ["session"], "ttl_ms": TTL_S * 1000}
    headers = {"Authorization": f"Bearer {os.environ['LINGUA_KEY']}"}
    async with httpx.AsyncClient(timeout=5) as http:
        answer = await http.post(f"{os.environ['LINGUA_URL']}/v1/tokens", json=wish, headers=headers)
    if answer.is_error:
        # The reason is for the log of the backend, not for its users.
        print(f"no token: {answer.status_code} {answer.text}")
        raise HTTPException(503, "translation is not available now")
    return str(answer.json()["token"])


def signed(name: str, private_key: str) -> str:
    """The scheduler is not asked: it knows the public key."""
    import jwt  # only those who sign need it

    now = int(time.time())
    claims = {
        "iss": os.environ["LINGUA_ISSUER"],
        "aud": "lingua",
        "sub": name,
        "iat": now,
        "exp": now + TTL_S,
        "lingua": {"tenant": os.environ.get("LINGUA_TENANT", "default"), "grants": ["session"]},
    }
    return jwt.encode(claims, private_key, algorithm="EdDSA", headers={"kid": os.environ["LINGUA_KID"]})
