// Nodes that join: those that wait for approval, those that may work, and the invitations that are open.
import { get } from "./api.js";
import { Keyed, h, setText, show } from "./dom.js";
import { moment } from "./format.js";
import { askToApprove, askToBan } from "./joining-dialogs.js";
import { askToRevoke } from "./key-dialogs.js";
import { askToInvite } from "./key-form.js";
import { empty, focusNext, heading, Mark } from "./parts.js";
import { may } from "./person.js";
import { href } from "./routes.js";
import { accessTabs, cardTable, cell, dayOf, rowButton } from "./tabs.js";
import { problemWords, stateWord } from "./telling.js";
import { limitsOf } from "./wishes.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** @import {JoinedNode, KeyLook} from "../shared/types" */
/** @import {Part} from "./dom.js" */

const NODES = ["node", "state", "labels", "slots", "tenant", "joined", "valid"];
const INVITATIONS = ["name", "nodes", "terms", "tenant", "valid"];
const ASK_EVERY_S = 5;

export class Joining {
  constructor() {
    this.title = t("joining.title");
    this.seconds = 0;
    /** @type {JoinedNode[]} */
    this.nodes = [];
    /** @type {KeyLook[]} */
    this.invitations = [];
    this.problem = h("p", { class: "problem", role: "alert" });
    const ask = () => this.ask();
    const nodeRow = (/** @type {JoinedNode} */ node) => new NodeRow(node, this, ask);
    const invitationRow = (/** @type {KeyLook} */ key) => new InvitationRow(key, this, ask);
    this.pending = new Section("joining.pending", NODES, nodeRow, "joining");
    this.joined = new Section("joining.here", NODES, nodeRow, "joining");
    this.open = new Section("joining.open", INVITATIONS, invitationRow);
    this.nothing = empty(t("joining.none"), h("p", {}, t("joining.none_words")));
    show(this.nothing, false);
    const invite = h("button", { type: "button", class: "primary", click: () => askToInvite(ask) }, t("joining.invite"));
    this.element = h(
      "div",
      {},
      accessTabs("joining"),
      heading(t("joining.title"), may("keys:write") && h("div", { class: "actions" }, invite)),
      this.problem,
      this.pending.element,
      this.joined.element,
      h("section", { class: "card flush" }, this.nothing),
      this.open.element,
    );
    this.ask();
  }

  update() {
    this.draw();
  }

  tick() {
    this.seconds += 1;
    if (this.seconds % ASK_EVERY_S === 0) this.ask();
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.element.querySelectorAll("tbody button")], step);
  }

  async ask() {
    try {
      const [{ nodes }, { keys }] = await Promise.all([get("v1/enrolments"), get("v1/keys")]);
      this.nodes = nodes;
      this.invitations = keys.filter((/** @type {KeyLook} */ key) => key.kind === "enrol");
      setText(this.problem, "");
      this.draw();
      const section = this.nothing.parentElement;
      if (section) show(section, nodes.length === 0);
      show(this.nothing, nodes.length === 0);
    } catch (error) {
      setText(this.problem, problemWords(error));
    }
  }

  draw() {
    const idOf = (/** @type {JoinedNode} */ node) => node.credential_id;
    this.pending.show(this.nodes.filter((node) => !node.is_approved), idOf);
    this.joined.show(this.nodes.filter((node) => node.is_approved), idOf);
    this.open.show(this.invitations, (/** @type {KeyLook} */ key) => key.id);
  }

  /**
   * How many of the nodes that are here joined with this key.
   * @param {string} keyId
   */
  countOf(keyId) {
    return this.nodes.filter((node) => node.enrolled_with === keyId).length;
  }

  /** @param {string} keyId */
  invitation(keyId) {
    return this.invitations.find((key) => key.id === keyId);
  }
}

/** A table with its heading, hidden while it is empty. */
class Section {
  /**
   * @param {string} word
   * @param {string[]} columns
   * @param {(item: any) => Part<any>} make
   * @param {string} [look]
   */
  constructor(word, columns, make, look = "") {
    const body = h("tbody");
    const heads = [...columns.map((name) => t(`joining.${name}`)), ...(may("keys:write") ? [t("access.actions")] : [])];
    this.rows = new Keyed(body, make);
    this.count = h("span", { class: "faint" });
    this.element = h(
      "section",
      { class: "card flush", hidden: true },
      h("h2", { class: "inset" }, t(word), " ", this.count),
      cardTable(t(word), heads, body, look),
    );
  }

  /**
   * @template T
   * @param {T[]} items
   * @param {(item: T) => string} idOf
   */
  show(items, idOf) {
    this.rows.show(items, idOf);
    setText(this.count, String(items.length));
    show(this.element, items.length > 0);
  }
}

class NodeRow {
  /**
   * @param {JoinedNode} node
   * @param {Joining} view
   * @param {() => void} onChange
   */
  constructor(node, view, onChange) {
    this.mark = new Mark();
    this.state = h("span");
    const named = node.node_id || t("joining.first");
    const ban = () => askToBan(node, view.invitation(node.enrolled_with), onChange);
    const actions = h(
      "span",
      { class: "row-actions" },
      !node.is_approved && rowButton(t("joining.approve"), named, () => askToApprove(node, onChange), "primary"),
      rowButton(t(node.is_approved ? "joining.ban" : "joining.reject"), named, ban),
    );
    this.element = h(
      "tr",
      { "data-node": node.node_id },
      h("th", { scope: "row" }, nameOf(node)),
      cell(t("joining.state"), h("span", { class: "state" }, this.mark.element, this.state)),
      cell(t("joining.labels"), chips(node)),
      cell(t("joining.slots"), h("span", { class: "short" }, slotWords(node))),
      cell(t("joining.tenant"), node.tenant),
      cell(t("joining.joined"), dayOf(node.created_ms)),
      cell(t("joining.valid"), validWords(node.expires_ms)),
      may("keys:write") && cell(t("access.actions"), actions),
    );
  }

  /** @param {JoinedNode} node */
  update(node) {
    const known = world.nodes.get(node.node_id);
    this.mark.show(!node.is_approved ? "warning" : known ? (known.level ?? "good") : "unknown");
    setText(this.state, !node.is_approved ? t("joining.waits") : known ? stateWord(known.state) : t("joining.away"));
  }
}

class InvitationRow {
  /**
   * @param {KeyLook} key
   * @param {Joining} view
   * @param {() => void} onChange
   */
  constructor(key, view, onChange) {
    this.view = view;
    this.nodes = cell(t("joining.nodes"));
    const terms = [
      key.needs_approval && t("joining.with_approval"),
      key.is_private && t("field.is_private"),
      key.is_ephemeral && t("field.is_ephemeral"),
      key.nodes_live_ms && t("joining.nodes_live", { n: Math.round(key.nodes_live_ms / 86_400_000) }),
      ...limitsOf(key).map(([name, value]) => `${t(`field.${name}`)}: ${value}`),
    ];
    const shown = terms.flatMap((term) => (term ? [h("span", {}, term)] : []));
    this.element = h(
      "tr",
      {},
      h("th", { scope: "row", class: "wrap" }, key.name || h("span", { class: "id" }, key.shown)),
      this.nodes,
      cell(t("joining.terms"), shown.length ? h("span", { class: "limits" }, shown) : "–"),
      cell(t("joining.tenant"), key.tenant),
      cell(t("joining.valid"), validWords(key.expires_ms)),
      may("keys:write") &&
        cell(
          t("access.actions"),
          h("span", { class: "row-actions" }, rowButton(t("access.revoke"), key.shown, () => askToRevoke(key, onChange))),
        ),
    );
  }

  /** @param {KeyLook} key */
  update(key) {
    const n = this.view.countOf(key.id);
    setText(this.nodes, key.max_nodes ? t("of", { part: n, whole: key.max_nodes }) : t("joining.of_any", { n }));
  }
}

/** @param {JoinedNode} node */
function nameOf({ node_id: nodeId, is_ephemeral: isEphemeral, is_private: isPrivate }) {
  const name = !nodeId
    ? h("span", { class: "faint" }, t("joining.first"))
    : world.nodes.has(nodeId)
      ? h("a", { class: "id", href: href("nodes", nodeId) }, nodeId)
      : h("span", { class: "id" }, nodeId);
  const marks = [isPrivate && "field.is_private", isEphemeral && "field.is_ephemeral"];
  const shown = marks.flatMap((word) => (word ? [h("span", { class: "chip" }, t(word))] : []));
  return h("span", { class: "node-name" }, name, ...shown);
}

/** @param {JoinedNode} node */
function slotWords({ max_slots: maxSlots }) {
  return maxSlots ? t("joining.at_most", { n: maxSlots }) : t("joining.any_slots");
}

/** @param {JoinedNode} node */
function chips({ labels }) {
  const found = Object.entries(labels).map(([name, value]) => h("span", { class: "chip" }, `${name}=${value}`));
  return found.length ? h("span", { class: "labels" }, found) : "–";
}

/** @param {number} expiresMs */
function validWords(expiresMs) {
  return expiresMs ? t("access.until", { time: moment(expiresMs) }) : t("access.forever");
}
