// Follows a room as a guest who reads one language: connects, joins, and does so again until the room has ended.
import { AccessDenied, connect } from "@lingua-scheduler/client";
import { joinRoom } from "@lingua-scheduler/client/rooms";

const AGAIN_AFTER_MS = 5_000;
// What another try does not change. A code that is unknown now may be that of strangers later.
const FINAL = ["BAD_ADDRESS", "ROOM_NOT_FOUND", "INVALID_ROOM_CODE", "INVALID_LANGUAGE", "PERMISSION_DENIED"];

/**
 * @typedef {{ url: string, room: string, language: string, token?: string }} Where
 * @typedef {import("@lingua-scheduler/client/rooms").RoomEvent
 *   | { kind: "joined" }
 *   | { kind: "connection", isOpen: boolean, text: string }} CaptionEvent
 */

/**
 * Tells the events of the room; `joined` before those of a new visit, of which `history` has the last minutes;
 * `connection` when it is lost and restored. `ended` is the last one.
 * @param {Where} where @param {(event: CaptionEvent) => void} tell
 */
export async function followRoom(where, tell) {
  for (;;) {
    const text = await visit(where, tell);
    if (text === null) return;
    tell({ kind: "connection", isOpen: false, text });
    await new Promise((wake) => setTimeout(wake, AGAIN_AFTER_MS));
  }
}

/**
 * Why it is over for now; null if it is over for good.
 * @param {Where} where @param {(event: CaptionEvent) => void} tell @returns {Promise<string | null>}
 */
async function visit({ url, room: code, language, token }, tell) {
  let session;
  try {
    // Nothing is said in this session, so any language will do as its source.
    session = await connect({ url, token, source: "en", target: language, giveUpAfterMs: Infinity });
    session.on("state", (state) => {
      if (state === "away" || state === "open") tell({ kind: "connection", isOpen: state === "open", text: "the connection is lost" });
    });
    const room = await joinRoom(session, code, { language, speech: false, listenOnly: true });
    tell({ kind: "joined" });
    tell({ kind: "connection", isOpen: true, text: "" });
    for await (const event of room) {
      tell(event);
      if (event.kind === "ended") return null;
    }
    return "the session has ended";
  } catch (error) {
    if (!(error instanceof AccessDenied) && !FINAL.includes(error.code)) return error.message;
    tell({ kind: "ended", text: error.message, said: error.message, code: error.code ?? "" });
    return null;
  } finally {
    session?.close();
  }
}

/**
 * Whether two tags name the same language, such as `pt` and `pt-BR`.
 * @param {string} one @param {string} other
 */
export function isSameLanguage(one, other) {
  return one.split("-")[0].toLowerCase() === other.split("-")[0].toLowerCase();
}
