// A node in Node.js, without dependencies: node node.mjs [address]
// Node.js 22 or newer; 20 needs the flag --experimental-websocket. Put your models in the place of `translate`.

import { cpus, totalmem } from "node:os";

// lingua conformance names its address in LINGUA_URL, with the path.
const scheduler = (process.argv[2] ?? process.env.LINGUA_URL ?? "ws://127.0.0.1:5010").replace(/(\/ws\/node)?\/?$/, "");
const languages = { asr_languages: ["en"], semantic_languages: ["en"], tts_languages: ["pt"] };
// Where nodes need a key. It is carried as a sub-protocol, because this WebSocket sends no headers.
const key = process.env.LINGUA_KEY;
const protocols = key ? ["lingua.v1", `lingua.auth.${key}`] : [];
const SLOTS = 2;
const HEARTBEAT_MS = 5_000;

if (typeof WebSocket === "undefined") {
  console.error("This Node.js has no WebSocket: install 22 or newer, or run: node --experimental-websocket node.mjs");
  process.exit(1);
}

if (!URL.canParse(scheduler) || !/^(ws|http)s?:$/.test(new URL(scheduler).protocol)) {
  console.error(`${scheduler} is not an address; usage: node node.mjs [ws://127.0.0.1:5010]`);
  process.exit(2);
}

const bootId = Math.random().toString(16).slice(2);
let nodeId = null; // given by the scheduler, and kept over reconnects
let failures = 0;
let leaving = false;
let socket = null;
const running = new Set();
const taken = new Set(); // the last attempts, because one may be assigned twice
const DISMISSED = new Set([4003, 4004, 4007]); // the scheduler does not want this credential again

/** One job: audio is base64 of job.audio_format (pcm16 or framed opus), 16 kHz, one channel. */
async function translate(job) {
  const seconds = Buffer.from(job.audio, "base64").length / 2 / job.sample_rate;
  const heard = `${seconds.toFixed(1)} seconds of speech`;
  const said = heard.replace("seconds of speech", "segundos de fala");
  return { text_asr: heard, text_translated: said, tts_audio: Buffer.alloc(3200).toString("base64"), tts_format: "pcm16" };
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** What a registration and a heartbeat have in common. */
function portrait() {
  const kinds = ["asr", "semantic", "nmt", "tts"];
  return {
    node_id: nodeId,
    installed_services: kinds.map((type) => ({ service_id: `toy-${type}`, type, device: "cpu", status: "running" })),
    capability_by_type: kinds.map((type) => ({ type, ready: true })),
    language_capabilities: { ...languages, nmt_capabilities: [["en", "pt"]] },
    running_job_ids: [...running],
    max_concurrent_jobs: SLOTS,
    heartbeat_interval_ms: HEARTBEAT_MS,
  };
}

function register() {
  send({
    type: "node_register",
    version: "1.0.0",
    platform: process.platform,
    hardware: { cpu_cores: cpus().length, memory_gb: totalmem() / 2 ** 30 },
    installed_models: [],
    features_supported: {},
    accept_public_jobs: !leaving,
    boot_id: bootId,
    ...portrait(),
  });
}

function beat() {
  const usage = { cpu_percent: 0, mem_percent: 0, running_jobs: running.size };
  send({ type: "node_heartbeat", timestamp: Date.now(), resource_usage: usage, ...portrait() });
}

async function work(job) {
  const attempt = `${job.job_id}#${job.attempt_id}`;
  if (taken.has(attempt)) return;
  taken.add(attempt);
  if (taken.size > 1_000) taken.delete(taken.values().next().value);
  const about = { job_id: job.job_id, attempt_id: job.attempt_id, node_id: nodeId, session_id: job.session_id };
  const result = { type: "job_result", ...about, utterance_index: job.utterance_index, trace_id: job.trace_id };
  if (running.size >= SLOTS) {
    send({ ...result, success: false, error: { code: "NODE_OVERLOADED", message: "all slots are in use" } });
    return;
  }
  running.add(job.job_id);
  try {
    Object.assign(result, { success: true }, await translate(job));
  } catch (error) {
    console.error(`job ${job.job_id} failed:`, error); // your own log; the scheduler hears no more than the type
    Object.assign(result, { success: false, error: { code: "PROCESSING_ERROR", message: error.name } });
  }
  running.delete(job.job_id);
  send(result);
  if (leaving && running.size === 0) socket?.close();
}

function take(message) {
  if (message.type === "node_register_ack") {
    nodeId = message.node_id;
    failures = 0;
    console.log(`registered as ${nodeId}`);
    beat();
  } else if (message.type === "job_assign") {
    work(message);
  } else if (message.type === "error") {
    console.error(`the scheduler says ${message.code}: ${message.message}`);
  }
}

/** Connect, and again after a pause that grows up to 5 s, with jitter. */
function connect() {
  socket = new WebSocket(`${scheduler}/ws/node`, protocols);
  const beating = setInterval(beat, HEARTBEAT_MS);
  socket.onopen = register;
  socket.onmessage = (event) => take(JSON.parse(event.data));
  let isOver = false;
  // A refused connection is an error, and in Node.js 20 nothing follows it.
  socket.onerror = socket.onclose = (event) => {
    if (isOver) return;
    isOver = true;
    clearInterval(beating);
    if (leaving) process.exit(0);
    if (DISMISSED.has(event.code)) {
      console.error(`the scheduler dismissed this node (${event.code}); it needs another key`);
      process.exit(1);
    }
    failures += 1;
    console.error(`no connection to ${scheduler}; trying again. Start a scheduler with: lingua serve`);
    setTimeout(connect, Math.random() * Math.min(5_000, 200 * 2 ** failures));
  };
}

/** Finish what runs, then leave. */
function leave() {
  leaving = true;
  if (socket?.readyState !== WebSocket.OPEN) process.exit(0);
  register();
  if (running.size === 0) socket.close();
}

process.on("SIGTERM", leave);
process.on("SIGINT", leave);
connect();
