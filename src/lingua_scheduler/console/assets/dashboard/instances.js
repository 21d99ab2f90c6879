// The scheduler's own processes: who leads, which map they follow, what lies in their inboxes.
import { get } from "./api.js";
import { h, Keyed, setText, show } from "./dom.js";
import { ago, duration, number } from "./format.js";
import { command, empty, factList, focusNext, heading, Mark } from "./parts.js";
import { problemWords } from "./telling.js";
import { t } from "./words.js";
import { lastPicture, now } from "./world.js";

/** @import {DeadLetter, InstanceLook} from "../shared/types" */

const LETTERS = 100;
const COLUMNS = [
  "instance",
  "state",
  "address",
  "version",
  "uptime",
  "sessions",
  "nodes",
  "waiting",
  "inbox",
  "dead_letters",
];
const WORDS = 4;
const LEVELS = { alive: "good", dead: "critical", stopped: "unknown" };
const LETTER_COLUMNS = ["reason", "subject", "instance", "sender", "deliveries", "buried"];

export class Instances {
  constructor() {
    this.title = t("view.instances");
    this.fields = Object.fromEntries(
      ["leader", "map", "built", "redis", "release", "made_by"].map((name) => [name, h("span")]),
    );
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (instance) => new Row(instance));
    this.nothing = empty(t("instances.none"));
    this.letters = h("tbody");
    this.letterRows = new Keyed(this.letters, (letter) => letterRow(letter));
    this.noLetters = h("p", { class: "calm inset" }, t("letters.none"));
    this.problem = h("p", { class: "problem inset", role: "alert" });
    this.letterTable = table(
      ["kind", ...LETTER_COLUMNS].map((name) => t(`letters.${name}`)),
      this.letters,
      t("letters.title"),
    );
    this.step = h(
      "div",
      { class: "inset" },
      h("p", {}, t("letters.step")),
      command("lingua dead-letters replay --all"),
    );
    const { fields } = this;
    this.element = h(
      "div",
      {},
      heading(t("view.instances")),
      h(
        "section",
        { class: "card" },
        h("h2", { class: "unseen" }, t("instances.together")),
        factList([
          [t("instances.leader"), fields.leader],
          [t("instances.map"), fields.map],
          [t("instances.built"), fields.built],
          [t("instances.redis"), fields.redis],
          [t("instances.release"), fields.release],
          [t("instances.made_by"), fields.made_by],
        ]),
      ),
      h(
        "section",
        { class: "card flush" },
        h("h2", { class: "inset" }, t("instances.title")),
        table(
          COLUMNS.map((name) => t(`instances.${name}`)),
          this.body,
          t("instances.title"),
          WORDS,
        ),
        this.nothing,
      ),
      h(
        "section",
        { class: "card flush" },
        h("h2", { class: "inset" }, t("letters.title")),
        this.problem,
        this.letterTable,
        this.noLetters,
        this.step,
      ),
    );
    /** @type {number | null} */
    this.asked = null;
  }

  update() {
    const picture = lastPicture();
    const { fields } = this;
    setText(fields.leader, picture.leader ?? t("instances.no_leader"));
    setText(fields.map, number(picture.map_version));
    setText(fields.built, picture.map_made_at_ms ? ago(now() - picture.map_made_at_ms) : "–");
    setText(fields.redis, `${picture.redis_version}${picture.is_stale ? ` · ${t("instances.redis_away")}` : ""}`);
    setText(fields.release, picture.release);
    setText(fields.made_by, picture.made_by);
    this.rows.show(listed(picture.instances), (instance) => instance.instance_id);
    show(this.nothing, picture.instances.length === 0);
    // Only their number comes by itself.
    if (this.asked !== picture.dead_letters) this.ask(picture.dead_letters);
  }

  tick() {
    this.update();
  }

  /** @param {number} count */
  async ask(count) {
    this.asked = count;
    setText(this.problem, "");
    /** @type {DeadLetter[]} */
    let letters = [];
    try {
      letters = count ? (await get(`v1/dead-letters?limit=${LETTERS}`)).dead_letters : [];
    } catch (error) {
      setText(this.problem, problemWords(error));
    }
    this.letterRows.show(letters, (letter) => `${letter.instance_id} ${letter.letter_id}`);
    show(this.letterTable, letters.length > 0);
    show(this.step, letters.length > 0);
    show(this.noLetters, count === 0);
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.body.rows], step);
  }
}

/**
 * The first `words` columns hold words, the rest figures.
 * @param {string[]} names
 * @param {Element} body
 * @param {string} title
 * @param {number} [words]
 */
function table(names, body, title, words = names.length) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    h(
      "table",
      { class: "table cards" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          names.map((name, place) => h("th", { scope: "col", class: place < words ? null : "figure" }, name)),
        ),
      ),
      body,
    ),
  );
}

class Row {
  /** @param {InstanceLook} instance */
  constructor(instance) {
    this.mark = new Mark();
    this.words = h("span");
    this.cells = COLUMNS.slice(2).map((name, place) =>
      h("td", { class: place + 2 >= WORDS ? "figure" : null, "data-name": t(`instances.${name}`) }),
    );
    const state = h("td", {}, h("span", { class: "state" }, this.mark.element, this.words));
    this.element = h(
      "tr",
      { tabindex: "-1" },
      h("th", { scope: "row", class: "id" }, instance.instance_id),
      state,
      this.cells,
    );
  }

  /** @param {InstanceLook} instance */
  update(instance) {
    const state = stateOf(instance);
    this.mark.show(LEVELS[state]);
    const words = [t(`instances.${state}`)];
    if (instance.is_leader) words.push(t("instances.leads"));
    if (state === "dead") words.push(t("instances.silent_for", { time: duration(instance.silent_ms) }));
    if (state === "stopped") words.push(t("for", { time: duration(instance.silent_ms) }));
    setText(this.words, words.join(" · "));
    const inbox = instance.inbox_pending
      ? t("instances.inbox_words", { letters: number(instance.inbox_letters), pending: number(instance.inbox_pending) })
      : number(instance.inbox_letters);
    const values = [
      instance.address,
      instance.version,
      instance.is_alive ? duration(now() - instance.started_at_ms) : "–",
      number(instance.sessions),
      number(instance.nodes),
      number(instance.jobs_waiting),
      inbox,
      number(instance.dead_letters),
    ];
    values.forEach((value, place) => setText(this.cells[place], value));
  }
}

/**
 * @param {InstanceLook} instance
 * @returns {keyof typeof LEVELS}
 */
function stateOf({ is_alive, has_left }) {
  if (is_alive) return "alive";
  return has_left ? "stopped" : "dead";
}

/**
 * Living ones first, those that were stopped last.
 * @param {readonly InstanceLook[]} instances
 */
export function listed(instances) {
  const states = Object.keys(LEVELS);
  return [...instances].sort((one, other) => states.indexOf(stateOf(one)) - states.indexOf(stateOf(other)));
}

/** @param {DeadLetter} letter */
function letterRow(letter) {
  const buried = ago(now() - letter.buried_at_ms);
  const { reason, subject, instance_id: inbox, sender, deliveries } = letter;
  const cells = [reason, subject || "–", inbox, sender, number(deliveries), buried];
  return {
    element: h(
      "tr",
      {},
      h("th", { scope: "row" }, letter.kind),
      cells.map((cell, place) => h("td", { "data-name": t(`letters.${LETTER_COLUMNS[place]}`) }, cell)),
    ),
  };
}
