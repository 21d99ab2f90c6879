// The audit log: who did what to what, when, from where.
import { get } from "./api.js";
import { h, setText, show } from "./dom.js";
import { moment } from "./format.js";
import { empty, focusNext, heading } from "./parts.js";
import { note } from "./routes.js";
import { accessTabs, cardTable, cell } from "./tabs.js";
import { problemWords } from "./telling.js";
import { t, tryT } from "./words.js";

/** @import {AuditEntry} from "../shared/types" */
/** @import {Route} from "./routes.js" */

const COLUMNS = ["when", "who", "action", "object", "outcome", "values"];
/** What actions are about. */
const NOUNS = ["", "keys", "nodes", "rooms", "issuers", "revocations", "alarms", "jobs", "dead-letters", "credentials", "scheduler"];
/** How far back, in seconds; none: as far as is kept. */
const SPANS = ["", "3600", "86400", "604800", "2592000"];
const MOST = 50;
const TYPING_MS = 300;

export class Audit {
  /** @param {Route} route */
  constructor(route) {
    this.title = t("audit.title");
    this.chosen = {
      action: route.query.get("action") ?? "",
      actor: route.query.get("actor") ?? "",
      object: route.query.get("object") ?? "",
      since: SPANS.find((span) => span === route.query.get("since")) ?? "",
    };
    this.before = 0;
    this.asked = 0;
    this.timer = 0;
    this.problem = h("p", { class: "problem inset", role: "alert" });
    this.body = h("tbody");
    this.nothing = empty(t("audit.none"), h("p", {}, t("audit.none_words")));
    show(this.nothing, false);
    this.older = h("button", { type: "button", hidden: true, click: () => this.ask() }, t("audit.older"));
    this.table = cardTable(t("audit.title"), COLUMNS.map((name) => t(`audit.${name}`)), this.body);
    this.element = h(
      "div",
      {},
      accessTabs("audit"),
      heading(t("audit.title")),
      h(
        "div",
        { class: "tools" },
        this.select("action", NOUNS, (noun) => (noun ? (tryT(`audit_noun.${noun}`, {}) ?? noun) : t("audit.any_action"))),
        this.search("actor", t("audit.filter_who")),
        this.search("object", t("audit.filter_object")),
        this.select("since", SPANS, (span) => t(`audit_since.${span || "all"}`)),
        h("button", { type: "button", click: () => this.restart() }, t("refresh")),
      ),
      h("section", { class: "card flush" }, this.problem, this.table, this.nothing),
      h("p", { class: "more" }, this.older),
    );
    this.ask();
  }

  /**
   * @param {"action" | "since"} name
   * @param {string[]} values
   * @param {(value: string) => string} words
   */
  select(name, values, words) {
    const known = values.includes(this.chosen[name]) ? values : [...values, this.chosen[name]];
    const options = known.map((value) => h("option", { value, selected: value === this.chosen[name] }, words(value)));
    const change = (/** @type {any} */ event) => this.choose({ [name]: event.target.value });
    return h("select", { "aria-label": t(`audit.choose_${name}`), change }, options);
  }

  /**
   * @param {"actor" | "object"} name
   * @param {string} label
   */
  search(name, label) {
    return h("input", {
      ...{ type: "search", class: "filter", placeholder: label, "aria-label": label, autocomplete: "off" },
      ...{ spellcheck: "false", maxlength: 256, value: this.chosen[name], "data-filter": name === "actor" },
      input: (event) => {
        clearTimeout(this.timer);
        this.timer = window.setTimeout(() => this.choose({ [name]: event.target.value.trim() }), TYPING_MS);
      },
    });
  }

  /** @param {Record<string, string>} chosen */
  choose(chosen) {
    Object.assign(this.chosen, chosen);
    note("audit", "", this.chosen);
    this.restart();
  }

  restart() {
    this.before = 0;
    return this.ask();
  }

  /** The next page; the first one replaces what is shown. */
  async ask() {
    this.asked += 1;
    const { asked, before } = this;
    const { action, actor, object, since } = this.chosen;
    const query = new URLSearchParams({ limit: String(MOST), before: String(before), action, actor, object });
    if (since) query.set("since_s", since);
    try {
      const { entries, next_before: next } = await get(`v1/audit?${query}`);
      // Other filters were chosen meanwhile.
      if (asked !== this.asked) return;
      setText(this.problem, "");
      const rows = entries.map(row);
      if (before) this.body.append(...rows);
      else this.body.replaceChildren(...rows);
      this.before = next;
      show(this.older, next > 0);
    } catch (error) {
      setText(this.problem, problemWords(error));
    }
    const isEmpty = this.body.childElementCount === 0;
    show(this.table, !isEmpty);
    show(this.nothing, isEmpty && !this.problem.textContent);
  }

  update() {}

  close() {
    clearTimeout(this.timer);
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.body.querySelectorAll("tr")], step);
  }
}

/** @param {AuditEntry} entry */
function row(entry) {
  const { actor } = entry;
  const who = tryT(`actor.${actor.kind}`, {}) ?? actor.kind;
  const values = Object.entries(entry.values).map(([name, value]) =>
    h("span", {}, h("span", { class: "faint" }, `${name} `), String(value)),
  );
  const time = h("time", { datetime: new Date(entry.at_ms).toISOString() }, moment(entry.at_ms));
  return h(
    "tr",
    { tabindex: "-1", "data-seq": entry.seq },
    h("th", { scope: "row" }, time),
    cell(
      t("audit.who"),
      h(
        "span",
        { class: "limits" },
        h("span", {}, who, actor.tenant && ` · ${actor.tenant === "*" ? t("login.all_tenants") : actor.tenant}`),
        actor.key_id && h("span", { class: "id" }, actor.key_id),
        actor.address && h("span", { class: "faint" }, actor.address),
      ),
    ),
    cell(t("audit.action"), h("span", { class: "id" }, entry.action)),
    cell(t("audit.object"), h("span", { class: "id wrap" }, entry.object || "–")),
    cell(t("audit.outcome"), tryT(`outcome.${entry.outcome}`, {}) ?? entry.outcome),
    cell(t("audit.values"), values.length ? h("span", { class: "values" }, values) : "–"),
  );
}
