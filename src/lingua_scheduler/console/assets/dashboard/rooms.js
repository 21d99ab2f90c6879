// Rooms: how many people speak with each other in which languages, which rooms there are, and closing one.
import { get } from "./api.js";
import { h, setText, show } from "./dom.js";
import { ago, duration, languageName, milliseconds, number } from "./format.js";
import { empty, focusNext, heading } from "./parts.js";
import { href } from "./routes.js";
import { cardTable, cell } from "./tabs.js";
import { problemWords } from "./telling.js";
import { t } from "./words.js";
import { lastPicture, now } from "./world.js";

/** @import {RoomAbout, RoomsLook} from "../shared/types" */
/** @import {Changed} from "./world.js" */

const COLUMNS = ["room", "code", "age", "quiet", "members", "languages"];
const LANGUAGE_COLUMNS = ["language", "listeners", "p50", "p95"];
const MOST = 50;
// The list itself is not part of the stream.
const REFRESH_MS = 10_000;

export class Rooms {
  constructor() {
    this.title = t("view.rooms");
    this.before = 0;
    this.asked = 0;
    this.problem = h("p", { class: "problem inset", role: "alert" });
    this.sums = h("p", { role: "status" });
    this.languages = h("tbody");
    this.languageTable = cardTable(
      t("rooms.languages"),
      LANGUAGE_COLUMNS.map((name) => t(`rooms.${name}`)),
      this.languages,
    );
    this.body = h("tbody");
    this.table = cardTable(
      t("view.rooms"),
      COLUMNS.map((name) => t(`rooms.${name}`)),
      this.body,
    );
    this.nothing = empty(t("rooms.none"), h("p", {}, t("rooms.none_words")));
    show(this.nothing, false);
    this.older = h("button", { type: "button", hidden: true, click: () => this.ask() }, t("rooms.older"));
    this.element = h(
      "div",
      {},
      heading(t("view.rooms")),
      h("section", { class: "card" }, this.sums, this.languageTable),
      h("section", { class: "card flush" }, this.problem, this.table, this.nothing),
      h("p", { class: "more" }, this.older),
    );
    this.timer = window.setInterval(() => this.refresh(), REFRESH_MS);
    this.ask();
  }

  /** @param {Changed} changed */
  update(changed) {
    if (!changed.has("rooms")) return;
    const rooms = lastPicture().rooms;
    setText(this.sums, rooms ? summary(rooms) : "");
    show(this.sums, Boolean(rooms?.rooms));
    const lines = rooms ? languageLines(rooms) : [];
    this.languages.replaceChildren(...lines.map(languageRow));
    show(this.languageTable, lines.length > 0);
  }

  /** Only while the first page is all that is shown: those who read further are not interrupted. */
  refresh() {
    if (this.body.childElementCount > MOST) return;
    this.before = 0;
    this.ask();
  }

  /** The next page; the first one replaces what is shown. */
  async ask() {
    this.asked += 1;
    const { asked, before } = this;
    try {
      const { rooms, next_before: next } = await get(`v1/rooms?limit=${MOST}&before=${before}`);
      if (asked !== this.asked) return;
      setText(this.problem, "");
      if (before) this.body.append(...rooms.map(row));
      else this.body.replaceChildren(...rooms.map(row));
      this.before = next;
      show(this.older, next > 0);
    } catch (error) {
      setText(this.problem, problemWords(error));
    }
    const isEmpty = this.body.childElementCount === 0;
    show(this.table, !isEmpty);
    show(this.nothing, isEmpty && !this.problem.textContent);
  }

  close() {
    clearInterval(this.timer);
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.body.querySelectorAll("a")], step);
  }
}

/** @param {RoomsLook} rooms */
function summary({ rooms, members, guests }) {
  const words = [t("rooms.count", { n: rooms, count: number(rooms) }), t("rooms.people", { n: members, count: number(members) })];
  if (guests) words.push(t("rooms.guests", { n: guests, count: number(guests) }));
  return words.join(" · ");
}

/**
 * Languages with their listeners and lag, the most listeners first; lag alone stays for a minute after the last left.
 * @param {RoomsLook} rooms
 * @returns {{language: string, listeners: number, p50: number | null, p95: number | null}[]}
 */
export function languageLines({ languages, lag_p50_ms: p50, lag_p95_ms: p95 }) {
  const names = new Set([...Object.keys(languages), ...Object.keys(p95)]);
  return [...names]
    .map((language) => ({
      language,
      listeners: languages[language] ?? 0,
      p50: p50[language] ?? null,
      p95: p95[language] ?? null,
    }))
    .sort((one, other) => other.listeners - one.listeners || (one.language < other.language ? -1 : 1));
}

/** @param {ReturnType<typeof languageLines>[number]} line */
function languageRow({ language, listeners, p50, p95 }) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, languageName(language)),
    cell(t("rooms.listeners"), number(listeners)),
    cell(t("rooms.p50"), milliseconds(p50)),
    cell(t("rooms.p95"), milliseconds(p95)),
  );
}

/** @param {RoomAbout} room */
function row(room) {
  const code = room.code || "–";
  return h(
    "tr",
    { "data-room": room.room_id },
    h("th", { scope: "row", class: "id" }, h("a", { href: href("rooms", room.room_id) }, room.room_id)),
    cell(t("rooms.code"), room.is_locked ? `${code} · ${t("rooms.locked")}` : code),
    cell(t("rooms.age"), duration(now() - room.opened_at_ms)),
    cell(t("rooms.quiet"), ago(now() - room.active_at_ms)),
    cell(t("rooms.members"), peopleIn(room)),
    cell(t("rooms.languages"), languagesIn(room)),
  );
}

/** @param {RoomAbout} room */
export function peopleIn({ members, guests }) {
  return guests ? `${number(members)} + ${t("rooms.guests", { n: guests, count: number(guests) })}` : number(members);
}

/** @param {RoomAbout} room */
export function languagesIn({ languages }) {
  return Object.entries(languages)
    .map(([language, count]) => `${languageName(language)} ${number(count)}`)
    .join(", ");
}
