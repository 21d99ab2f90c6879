// One room: its members, without their names, and the button that closes it.
import { get, part, post } from "./api.js";
import { confirm } from "./dialogs.js";
import { h, setText, show } from "./dom.js";
import { ago, duration, languageName } from "./format.js";
import { back, factList, focusNext, heading } from "./parts.js";
import { may } from "./person.js";
import { languagesIn, peopleIn } from "./rooms.js";
import { go } from "./routes.js";
import { cardTable, cell } from "./tabs.js";
import { problemWords } from "./telling.js";
import { t, tryT } from "./words.js";
import { now } from "./world.js";

/** @import {RoomAbout, RoomPerson} from "../shared/types" */
/** @import {Route} from "./routes.js" */

const FACTS = ["code", "tenant", "age", "quiet", "members", "languages", "instances"];
const COLUMNS = ["session", "role", "speaks", "hears", "since", "at"];
const REFRESH_MS = 5000;

export class Room {
  /** @param {Route} route */
  constructor(route) {
    this.id = route.id;
    this.title = t("rooms.one");
    this.asked = 0;
    this.facts = Object.fromEntries(FACTS.map((name) => [name, h("span")]));
    this.problem = h("p", { class: "problem", role: "alert" });
    this.body = h("tbody");
    this.table = cardTable(
      t("rooms.members"),
      COLUMNS.map((name) => t(`rooms.${name}`)),
      this.body,
    );
    this.end = h("button", { type: "button", class: "danger", click: () => askToClose(this.id) }, t("rooms.close"));
    this.details = h(
      "div",
      { hidden: true },
      h("section", { class: "card" }, factList(FACTS.map((name) => [t(`rooms.${name}`), this.facts[name]]))),
      h("section", { class: "card flush" }, this.table),
    );
    show(this.end, false);
    this.element = h(
      "div",
      {},
      back("rooms", t("view.rooms")),
      heading(t("rooms.one"), h("span", { class: "id" }, this.id), this.end),
      this.problem,
      this.details,
    );
    this.timer = window.setInterval(() => this.ask(), REFRESH_MS);
    this.ask();
  }

  async ask() {
    this.asked += 1;
    const { asked } = this;
    try {
      const { room, members } = await get(`v1/rooms/${part(this.id)}`);
      if (asked !== this.asked) return;
      setText(this.problem, "");
      this.draw(room, members);
    } catch (error) {
      setText(this.problem, problemWords(error));
      show(this.details, false);
      show(this.end, false);
    }
  }

  /**
   * @param {RoomAbout} room
   * @param {RoomPerson[]} members
   */
  draw(room, members) {
    const { facts } = this;
    setText(facts.code, (room.code || "–") + (room.is_locked ? ` · ${t("rooms.locked")}` : ""));
    setText(facts.tenant, room.tenant);
    setText(facts.age, duration(now() - room.opened_at_ms));
    setText(facts.quiet, ago(now() - room.active_at_ms));
    setText(facts.members, peopleIn(room));
    setText(facts.languages, languagesIn(room));
    setText(facts.instances, room.instances.join(", ") || "–");
    this.body.replaceChildren(...members.map(row));
    show(this.details, true);
    show(this.end, may("fleet:operate"));
  }

  update() {}

  close() {
    clearInterval(this.timer);
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.body.rows], step);
  }
}

/** @param {string} roomId */
function askToClose(roomId) {
  confirm({
    title: t("rooms.close_title"),
    body: [h("p", {}, t("rooms.close_what"))],
    yes: t("rooms.close"),
    isDangerous: true,
    act: async () => {
      await post(`v1/rooms/${part(roomId)}/close`);
      go("rooms");
    },
  });
}

/** @param {RoomPerson} member */
function row(member) {
  const { role, src_lang: speaks, language: hears } = member;
  return h(
    "tr",
    { tabindex: "-1" },
    h("th", { scope: "row", class: "id" }, member.session_id),
    cell(t("rooms.role"), tryT(`rooms.role_${role}`, {}) ?? role),
    cell(t("rooms.speaks"), speaks ? languageName(speaks) : "–"),
    cell(t("rooms.hears"), hears ? languageName(hears) : "–"),
    cell(t("rooms.since"), duration(now() - member.joined_at_ms)),
    cell(t("rooms.at"), member.instance_id || "–"),
  );
}
