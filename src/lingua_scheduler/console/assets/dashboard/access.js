// The keys with which people, apps and nodes come in: a list, and what may be done with each.
import { get } from "./api.js";
import { Keyed, h, setText, show } from "./dom.js";
import { ago, moment } from "./format.js";
import { askToRevoke, askToRotate } from "./key-dialogs.js";
import { askToCreate } from "./key-form.js";
import { empty, focusNext, heading, Mark } from "./parts.js";
import { may } from "./person.js";
import { accessTabs, cardTable, cell, dayOf, rowButton } from "./tabs.js";
import { problemWords } from "./telling.js";
import { limitsOf } from "./wishes.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {KeyLook} from "../shared/types" */

const COLUMNS = ["name", "key", "kind", "rights", "state", "used", "created"];
const LEVELS = { live: "good", expired: "unknown", revoked: "critical" };
const ASK_EVERY_S = 10;

export class Access {
  constructor() {
    this.title = t("access.title");
    this.seconds = 0;
    this.isAll = false;
    this.problem = h("p", { class: "problem inset", role: "alert" });
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (key) => new Row(key, () => this.ask()));
    this.nothing = empty(t("access.none"), h("p", {}, t("access.none_words")));
    show(this.nothing, false);
    const create = h(
      "button",
      { type: "button", class: "primary", click: () => askToCreate(() => this.ask()) },
      t("access.create"),
    );
    const ended = h("input", { type: "checkbox", change: (event) => this.choose(event.target.checked) });
    const heads = [...COLUMNS.map((name) => t(`access.${name}`)), ...(may("keys:write") ? [t("access.actions")] : [])];
    this.table = cardTable(t("access.title"), heads, this.body);
    this.element = h(
      "div",
      {},
      accessTabs("access"),
      heading(t("access.title"), may("keys:write") && h("div", { class: "actions" }, create)),
      h("div", { class: "tools" }, h("label", { class: "check" }, ended, t("access.ended"))),
      h("section", { class: "card flush" }, this.problem, this.table, this.nothing),
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
      show(this.table, keys.length > 0);
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
    this.used = h("span", { class: "short" });
    // A node that joined signs with a key of its own, which cannot be replaced by another.
    const isReplaceable = !key.enrolled_with;
    this.rotate = isReplaceable && rowButton(t("access.rotate"), key.shown, () => askToRotate(key, onChange));
    this.actions = h(
      "span",
      { class: "row-actions" },
      this.rotate,
      rowButton(t("access.revoke"), key.shown, () => askToRevoke(key, onChange)),
    );
    this.element = h(
      "tr",
      { "data-key": key.id },
      h("th", { scope: "row", class: "wrap" }, key.name || h("span", { class: "faint" }, t("access.unnamed"))),
      cell(t("access.key"), h("span", { class: "id" }, key.shown)),
      cell(t("access.kind"), t(`kind.${key.kind}`)),
      cell(t("access.rights"), h("span", { class: "limits" }, ...rights(key))),
      cell(t("access.state"), h("span", { class: "state" }, this.mark.element, this.state)),
      cell(t("access.used"), this.used),
      cell(t("access.created"), dayOf(key.created_ms)),
      may("keys:write") && cell(t("access.actions"), this.actions),
    );
  }

  /** @param {KeyLook} key */
  update(key) {
    this.mark.show(LEVELS[key.state]);
    setText(this.state, stateWords(key));
    setText(this.used, key.last_used_ms ? ago(now() - key.last_used_ms) : t("access.unused"));
    show(this.actions, key.state === "live");
    // It has a successor, and only that one can be rotated.
    if (this.rotate) show(this.rotate, !key.successor);
  }
}

/** @param {KeyLook} key */
function rights(key) {
  const whose = key.tenant === "*" ? t("login.all_tenants") : key.tenant;
  const first = [key.role ? t(`role.${key.role}`) : "", key.node_id, whose].filter(Boolean).join(" · ");
  const limits = limitsOf(key).map(([name, value]) =>
    h("span", {}, h("span", { class: "faint" }, `${t(`field.${name}`)}: `), value),
  );
  return [h("span", {}, first), ...limits];
}

/** @param {KeyLook} key */
function stateWords({ state, expires_ms: expiresMs }) {
  return state === "live" && expiresMs ? t("access.until", { time: moment(expiresMs) }) : t(`access.${state}`);
}
