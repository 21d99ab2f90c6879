// The keys with which people, apps and nodes come in: a list, and what may be done with each.
import { get } from "./api.js";
import { Keyed, h, setText, show } from "./dom.js";
import { ago, moment } from "./format.js";
import { askToCreate, askToRevoke, askToRotate } from "./key-dialogs.js";
import { empty, focusNext, heading, Mark } from "./parts.js";
import { may } from "./person.js";
import { problemWords } from "./telling.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {KeyLook} from "../shared/types" */

const COLUMNS = ["name", "key", "kind", "rights", "state", "used", "created"];
const LEVELS = { live: "good", expired: "unknown", revoked: "critical" };
const ASK_EVERY_S = 10;

export class Access {
  constructor() {
    this.title = t("view.access");
    this.seconds = 0;
    this.isAll = false;
    this.problem = h("p", { class: "problem inset", role: "alert" });
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (key) => new Row(key, () => this.ask()));
    this.nothing = empty(t("access.none"));
    show(this.nothing, false);
    const create = h(
      "button",
      { type: "button", class: "primary", click: () => askToCreate(() => this.ask()) },
      t("access.create"),
    );
    const ended = h("input", { type: "checkbox", change: (event) => this.choose(event.target.checked) });
    const heads = [...COLUMNS.map((name) => t(`access.${name}`)), ...(may("keys:write") ? [t("access.actions")] : [])];
    this.element = h(
      "div",
      {},
      heading(t("view.access"), may("keys:write") && h("div", { class: "actions" }, create)),
      h("div", { class: "tools" }, h("label", { class: "check" }, ended, t("access.ended"))),
      h(
        "section",
        { class: "card flush" },
        this.problem,
        h(
          "div",
          { class: "scroll" },
          h(
            "table",
            { class: "table cards" },
            h("caption", { class: "unseen" }, t("view.access")),
            h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))),
            this.body,
          ),
        ),
        this.nothing,
      ),
    );
    this.ask();
  }

  update() {}

  tick() {
    this.seconds += 1;
    if (this.seconds % ASK_EVERY_S === 0) this.ask();
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.body.querySelectorAll("button")], step);
  }

  /** @param {boolean} isAll whether to show those that have ended, too */
  choose(isAll) {
    this.isAll = isAll;
    this.ask();
  }

  async ask() {
    try {
      const { keys } = await get(`v1/keys?all=${this.isAll}`);
      setText(this.problem, "");
      this.rows.show(keys, (/** @type {KeyLook} */ key) => key.id);
      show(this.nothing, keys.length === 0);
    } catch (error) {
      setText(this.problem, problemWords(error));
    }
  }
}

class Row {
  /**
   * @param {KeyLook} key
   * @param {() => void} onChange
   */
  constructor(key, onChange) {
    this.mark = new Mark();
    this.state = h("span");
    this.used = cell("used");
    this.actions = h(
      "span",
      { class: "row-actions" },
      h(
        "button",
        { type: "button", "aria-label": `${t("access.rotate")} ${key.shown}`, click: () => askToRotate(key, onChange) },
        t("access.rotate"),
      ),
      h(
        "button",
        { type: "button", "aria-label": `${t("access.revoke")} ${key.shown}`, click: () => askToRevoke(key, onChange) },
        t("access.revoke"),
      ),
    );
    this.element = h(
      "tr",
      { "data-key": key.id },
      h("th", { scope: "row" }, key.name || h("span", { class: "faint" }, t("access.unnamed"))),
      cell("key", h("span", { class: "id" }, key.shown)),
      cell("kind", t(`kind.${key.kind}`)),
      cell("rights", rights(key)),
      cell("state", h("span", { class: "state" }, this.mark.element, this.state)),
      this.used,
      cell("created", moment(key.created_ms)),
      may("keys:write") && cell("actions", this.actions),
    );
  }

  /** @param {KeyLook} key */
  update(key) {
    this.mark.show(LEVELS[key.state]);
    setText(this.state, stateWords(key));
    setText(this.used, key.last_used_ms ? ago(now() - key.last_used_ms) : t("access.unused"));
    show(this.actions, key.state === "live");
  }
}

/**
 * @param {string} name
 * @param {...(Node | string)} children
 */
function cell(name, ...children) {
  return h("td", { "data-name": t(`access.${name}`) }, ...children);
}

/** @param {KeyLook} key */
function rights({ role, tenant, node_id: nodeId }) {
  const whose = tenant === "*" ? t("login.all_tenants") : tenant;
  return [role ? t(`role.${role}`) : "", nodeId, whose].filter(Boolean).join(" · ");
}

/** @param {KeyLook} key */
function stateWords({ state, expires_ms: expiresMs }) {
  return state === "live" && expiresMs ? t("access.until", { time: moment(expiresMs) }) : t(`access.${state}`);
}
