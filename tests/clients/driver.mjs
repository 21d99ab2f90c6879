// Lets a test in Python steer the JavaScript client: one JSON object a line comes in, one a line goes out.
// node driver.mjs <built package> <folder of the package ws> <options as JSON>
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [built, tools, given] = process.argv.slice(2);
const { connect } = await import(pathToFileURL(`${built}/index.js`).href);
const { createRoom, joinRoom } = await import(pathToFileURL(`${built}/rooms.js`).href);
const WebSocket = createRequire(pathToFileURL(`${tools}/`))("ws");

const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
const { tokens, ...options } = JSON.parse(given);
// Each connect and each renewal takes the next one; the last one stays.
const token = tokens && (async () => (tokens.length > 1 ? tokens.shift() : tokens[0]));
const SPEECH = new Int16Array(3_200).fill(256);
let room;

const verbs = {
  utterance: (session) => session.utterance(SPEECH),
  send: (session, isFinal) => session.send(SPEECH, isFinal),
  final: (session) => session.final(),
  finish: (session) => session.finish(),
  close: (session) => session.close(),
  playback: (session, type) => session.playback(type, { trace_id: "t", group_id: "g" }),
  read: (session) => void read(session),
  create: async (session, more) => followed(await createRoom(session, more)),
  join: async (session, [code, more]) => followed(await joinRoom(session, code, more)),
  room: (_, [verb, ...arguments_]) => room[verb](...arguments_),
};

async function followed(entered) {
  room = entered;
  void readRoom(entered);
  return entered.code;
}

async function readRoom(entered) {
  try {
    for await (const event of entered) tell({ room: { ...event, speech: undefined, message: undefined } });
    tell({ roomOver: true });
  } catch (error) {
    tell({ roomOver: true, code: error.code });
  }
}

async function read(session) {
  try {
    for await (const heard of session) tell({ heard: { ...heard, speech: heard.speech?.length, message: undefined } });
    tell({ over: true });
  } catch (error) {
    tell({ over: true, error: error.constructor.name, code: error.code, message: error.message, status: error.status });
  }
}

try {
  const session = await connect({ ...options, webSocket: WebSocket, ...(token ? { token } : {}) });
  for (const name of ["state", "resumed", "restarted", "progress"]) session.on(name, (event) => tell({ [name]: event }));
  tell({ open: session.sessionId, unserved: session.unserved });
  for await (const line of createInterface({ input: process.stdin })) {
    for (const [verb, argument] of Object.entries(JSON.parse(line))) {
      Promise.resolve(verbs[verb](session, argument)).then(
        (value) => tell({ did: verb, value }),
        (error) => tell({ did: verb, error: error.constructor.name, code: error.code, message: error.message }),
      );
    }
  }
} catch (error) {
  tell({ failed: error.constructor.name, code: error.code, message: error.message, status: error.status });
}
