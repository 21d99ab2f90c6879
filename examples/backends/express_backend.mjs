// An app's backend that gives its logged-in users tokens for the scheduler: node express_backend.mjs
//
// LINGUA_URL is the scheduler, LINGUA_KEY a service key;
// LINGUA_PUBLIC_URL is the scheduler for browsers, if it differs. With LINGUA_SIGNING_KEY, a file with an Ed25519 private key,
// it signs the tokens itself; LINGUA_KID, LINGUA_ISSUER and LINGUA_TENANT are those of `lingua keys issuer add`.
import { readFileSync } from "node:fs";
import { sign } from "node:crypto";
import { fileURLToPath } from "node:url";
import express from "express";

const { LINGUA_URL, LINGUA_KEY, LINGUA_SIGNING_KEY, LINGUA_KID, LINGUA_ISSUER, LINGUA_TENANT = "default" } = process.env;
// Where browsers reach the scheduler, if that is another address than the backend's.
const PUBLIC_URL = process.env.LINGUA_PUBLIC_URL || LINGUA_URL;
const PORT = Number(process.env.PORT ?? 3000);
const TTL_S = 900;
const HERE = fileURLToPath(new URL(".", import.meta.url));

/** The user who is logged in. Replace this by the login of your app: a session cookie, OAuth … */
function userOf(request) {
  const found = /^Bearer demo-(.+)$/.exec(request.get("authorization") ?? "");
  return found?.[1];
}

/** The scheduler makes the token. No library for tokens is needed, and the service key stays here. */
async function asked(user) {
  const answer = await fetch(`${LINGUA_URL}/v1/tokens`, {
    method: "POST",
    headers: { "Authorization": `Bearer ${LINGUA_KEY}`, "Content-Type": "application/json" },
    body: JSON.stringify({ subject: user, grants: ["session"], ttl_ms: TTL_S * 1000 }),
    signal: AbortSignal.timeout(5000),
  });
  if (!answer.ok) throw new Error(`no token: ${answer.status} ${await answer.text()}`);
  return (await answer.json()).token;
}

/** The scheduler is not asked: it knows the public key. */
function signed(user) {
  const now = Math.floor(Date.now() / 1000);
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const header = part({ alg: "EdDSA", kid: LINGUA_KID, typ: "JWT" });
  const claims = part({
    iss: LINGUA_ISSUER,
    aud: "lingua",
    sub: user,
    iat: now,
    exp: now + TTL_S,
    lingua: { tenant: LINGUA_TENANT, grants: ["session"] },
  });
  const signature = sign(null, Buffer.from(`${header}.${claims}`), readFileSync(LINGUA_SIGNING_KEY, "utf8"));
  return `${header}.${claims}.${signature.toString("base64url")}`;
}

const app = express();

app.post("/lingua-token", async (request, response) => {
  const user = userOf(request);
  if (!user) {
    response.status(401).json({ error: "log in first" });
    return;
  }
  try {
    response.json({ token: LINGUA_SIGNING_KEY ? signed(user) : await asked(user), url: PUBLIC_URL });
  } catch (error) {
    // The reason is for the log of the backend, not for its users.
    console.error(error.message);
    response.status(503).json({ error: "translation is not available now" });
  }
});

// The page, and the JavaScript client for it.
app.get("/", (_request, response) => response.sendFile("page.html", { root: HERE }));
app.use("/client", express.static(`${HERE}node_modules/@lingua-scheduler/client/dist`));

const server = app.listen(PORT, "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
