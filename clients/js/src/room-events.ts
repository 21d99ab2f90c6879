// What happens in a room, as plain values: who is there, what is said and written, and its end.
import { fromBase64 } from "./frames.js";
import type { AsrPartial, IceServer, RoomCaption, RoomHistory, RoomMembers, RoomMessage, RoomSpeaking, TranslationResult } from "./messages.js";
import type { WebrtcAnswer, WebrtcIce, WebrtcOffer } from "./messages.js";
import { Received } from "./received.js";
import type { Outcome } from "./results.js";

const BOTH = /^[^()]*[\u4e00-\u9fff][^()]*\((.+)\)$/s;

/** Sentences about rooms are in Chinese, which existing apps show, with the same in English in brackets. */
export function inEnglish(text: string): string {
  return BOTH.exec(text)?.[1] ?? text;
}

export interface Person {
  sessionId: string;
  name: string;
  /** In which it reads and hears the others, and which it speaks; empty if it did not say so. */
  language: string;
  speaks: string;
  /** `host`, or empty. */
  role: string;
}

/** Who speaks: the id of the session, and the name if it is known. */
interface Speaker {
  speaker: string;
  name: string;
}

/** Everyone who is in the room now, in the order they joined; guests are only counted. */
export interface MembersChanged {
  kind: "members";
  members: Person[];
  isLocked: boolean;
  guests: number;
}

/** What a member said: as it was understood, and in the language of this listener. Of your own speech, `translated` is
 * empty unless no one else is there. */
export interface Said extends Speaker {
  kind: "said";
  /** The number of the utterance in the session of its speaker. */
  index: number;
  text: string;
  translated: string;
  language: string;
  /** Its place in the room, the same for every listener. */
  seq: number | null;
  speech: Uint8Array;
  speechFormat: string;
  isOwn: boolean;
  isLate: boolean;
  message: TranslationResult;
}

/** A member spoke, and there is no text. */
export interface Unheard extends Speaker {
  kind: "unheard";
  index: number;
  seq: number | null;
  reason: string;
  code: string;
  isOwn: boolean;
}

/** What a member is saying, as far as it is understood, in its own language. `said` follows. May be lost. */
export interface Caption extends Speaker {
  kind: "caption";
  index: number;
  text: string;
  language: string;
  isFinal: boolean;
}

/** A member begins or ends to speak. May be lost. */
export interface Speaking extends Speaker {
  kind: "speaking";
  isSpeaking: boolean;
}

export interface TextMessage extends Speaker {
  kind: "message";
  text: string;
  atMs: number;
}

/** Said or written before you came, in your language where it was translated into it; `original` as it was said. */
export interface EarlierLine extends Speaker {
  text: string;
  original: string;
  /** Of `text`; empty of what was written. */
  language: string;
  /** Its place in the room; null of what was written. */
  seq: number | null;
  atMs: number;
}

/** The last minutes, oldest first. */
export interface History {
  kind: "history";
  lines: EarlierLine[];
}

/** Something that you did not wait for was refused. */
export interface Rejected {
  kind: "rejected";
  code: string;
  text: string;
}

/** The room has ended for you: it was closed, it expired, or the host removed you. Nothing follows. */
export interface Ended {
  kind: "ended";
  text: string;
  /** The same in the words of the scheduler, which may be in two languages. */
  said: string;
  /** Why it could not be entered again after a break, such as ROOM_NOT_FOUND; else empty. */
  code: string;
}

/** You are in the room: also again, after a break, perhaps as another session. Only for listeners. */
export interface Entered {
  kind: "entered";
  code: string;
  sessionId: string;
  iceServers: readonly IceServer[];
}

export type VoiceSignal = WebrtcOffer | WebrtcAnswer | WebrtcIce;

/** What another member's browser says about a voice; `./voices` handles it. Only for listeners. */
export interface Signalled {
  kind: "signal";
  signal: VoiceSignal;
}

export type RoomEvent = MembersChanged | Said | Unheard | Caption | Speaking | TextMessage | History | Rejected | Ended;
export type RoomSignal = Entered | Signalled;

// Names of members that have left, for what they said before; and outcomes from before the first that arrived.
const MAX_NAMES = 1_000;
const MAX_EARLIER = 1_000;

/** Turns messages into events. */
export class Reading {
  readonly #names = new Map<string, string>();
  readonly #earlier = new Set<number>();
  #received: Received | null = null;
  #first = 0;
  members: Person[] = [];

  /** One that enters gets what is said after this number. */
  begin(latest: number): void {
    this.#first = latest + 1;
    this.#received = new Received(this.#first);
  }

  /** Everything up to this number has arrived; null: nothing has. */
  get lastSeq(): number | null {
    return this.#received && this.#received.last >= 0 ? this.#received.last : null;
  }

  /** Null if it has come before. */
  outcome(message: Outcome, isOwn: boolean): Said | Unheard | null {
    const seq = message.room_seq ?? null;
    if (seq !== null && !this.#isNew(seq)) return null;
    const about = { ...this.#speaker(message.session_id), index: message.utterance_index, seq, isOwn };
    if (message.type === "missing_result") return { kind: "unheard", ...about, reason: message.reason, code: message.code ?? "" };
    return {
      kind: "said",
      ...about,
      text: message.text_asr,
      translated: message.text_translated,
      language: message.lang ?? "",
      speech: fromBase64(message.tts_audio),
      speechFormat: message.tts_format,
      isLate: Boolean(message.late),
      message,
    };
  }

  changed({ members, locked, guests }: RoomMembers): MembersChanged {
    this.members = members.map((one) => ({
      sessionId: one.session_id,
      name: one.display_name ?? "",
      language: one.preferred_lang ?? "",
      speaks: one.src_lang ?? "",
      role: one.role ?? "",
    }));
    for (const { sessionId, name } of this.members) {
      // Those who are here are the last to be forgotten.
      this.#names.delete(sessionId);
      this.#names.set(sessionId, name);
    }
    for (const id of this.#names.keys()) {
      if (this.#names.size <= MAX_NAMES) break;
      this.#names.delete(id);
    }
    return { kind: "members", members: this.members, isLocked: Boolean(locked), guests: guests ?? 0 };
  }

  caption(message: RoomCaption | AsrPartial): Caption {
    const language = message.type === "room_caption" ? message.lang : "";
    return { kind: "caption", ...this.#speaker(message.session_id), index: message.utterance_index, text: message.text, language, isFinal: message.is_final };
  }

  speaking({ session_id, speaking }: RoomSpeaking): Speaking {
    return { kind: "speaking", ...this.#speaker(session_id), isSpeaking: speaking };
  }

  message({ session_id, display_name, text, sent_at_ms }: RoomMessage): TextMessage {
    const name = display_name || this.#speaker(session_id).name;
    return { kind: "message", speaker: session_id, name, text, atMs: sent_at_ms };
  }

  history({ lines }: RoomHistory): History {
    const unknown = lines.filter(({ room_seq }) => room_seq == null || this.#know(room_seq));
    return {
      kind: "history",
      lines: unknown.map((line) => ({
        speaker: line.session_id,
        name: line.display_name ?? "",
        text: line.text,
        original: line.text_asr ?? line.text,
        language: line.lang ?? "",
        seq: line.room_seq ?? null,
        atMs: line.at_ms,
      })),
    };
  }

  #speaker(speaker: string): Speaker {
    return { speaker, name: this.#names.get(speaker) ?? "" };
  }

  #isNew(seq: number): boolean {
    if (!this.#received) this.begin(seq - 1);
    return seq < this.#first ? this.#know(seq) : !this.#earlier.has(seq) && this.#received!.add(seq);
  }

  /** It was told in another way. False if that is known. */
  #know(seq: number): boolean {
    if (this.#earlier.has(seq) || (this.#received && seq >= this.#first && this.#received.has(seq))) return false;
    this.#earlier.add(seq);
    if (this.#earlier.size > MAX_EARLIER) this.#earlier.delete(this.#earlier.values().next().value!);
    return true;
  }
}
