// The form for a new key: the fields that its kind has, and the scheduler's own words beside the one that is wrong.
import { post, refusal } from "./api.js";
import { confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { checkbox, choice, Field, FieldGroup, input, lifeWords } from "./fields.js";
import { person } from "./person.js";
import { showOnce } from "./secrets.js";
import { problemWords } from "./telling.js";
import {
  DAY_MS,
  defaultLife,
  faultyField,
  hasField,
  joinString,
  KINDS,
  LABELS,
  labelsOf,
  listOf,
  ROLES,
  socketAddress,
  urlWithKey,
  wishOf,
  WrongField,
} from "./wishes.js";
import { t } from "./words.js";

const DAYS = ["1", "7", "30", "90", "365", "0"];
const NODE_DAYS = ["0", "1", "7", "30", "90", "365"];
const NAME_LENGTH = 128;

/** @import {Secret} from "./secrets.js" */

/** @param {() => void} onDone */
export function askToCreate(onDone) {
  new KeyForm(onDone).open(t("access.create"), t("access.create"));
}

/**
 * An enrolment key, as the string that its node is given.
 * @param {() => void} onDone
 */
export function askToInvite(onDone) {
  new KeyForm(onDone, "enrol").open(t("joining.invite"), t("joining.make"), t("joining.invite_words"));
}

class KeyForm {
  /**
   * @param {() => void} onDone
   * @param {string} [only] the kind, if there is no choice
   */
  constructor(onDone, only = "") {
    this.onDone = onDone;
    this.only = only;
    this.isLifeChosen = false;
    this.kind = new Field("kind", choice(only ? [only] : KINDS, (kind) => t(`kind.${kind}`)));
    this.named = new Field("name", input({ maxlength: NAME_LENGTH }), { hint: t("hint.name") });
    this.tenant = new Field("tenant", input({ value: ownTenant() }));
    this.role = new Field("role", choice(ROLES, (role) => t(`role.${role}`)));
    this.nodeId = new Field("node_id", input(), { hint: t("hint.node_id") });
    this.origins = new Field("origins", input({ placeholder: "https://…" }), { hint: t("hint.origins") });
    this.pairs = new Field("pairs", input({ placeholder: "zh:en, *:fr" }), { hint: t("hint.pairs") });
    this.actFor = new Field("act_for", input(), { hint: t("hint.act_for") });
    this.signs = new Field("signs", checkbox());
    this.labels = LABELS.map((name) => new Field(name, input()));
    this.others = new Field("others", input({ placeholder: "rack=7, room=b" }));
    this.labelGroup = new FieldGroup("labels", t("field.labels"), [...this.labels, this.others]);
    const whole = { type: "number", min: 0, step: 1, inputmode: "numeric" };
    this.slots = new Field("max_slots", input({ ...whole, value: 0 }), { hint: t("hint.max_slots") });
    this.maxNodes = new Field("max_nodes", input({ ...whole, value: 1 }), { hint: t("hint.max_nodes") });
    this.approval = new Field("needs_approval", checkbox(), { hint: t("hint.needs_approval") });
    this.ephemeral = new Field("is_ephemeral", checkbox(), { hint: t("hint.is_ephemeral") });
    this.private = new Field("is_private", checkbox(isOfOneTenant()), { hint: t("hint.is_private") });
    this.nodesLive = new Field("nodes_live_ms", choice(NODE_DAYS, lifeWords));
    this.networks = new Field("networks", input({ placeholder: "192.0.2.0/24" }), { hint: t("hint.networks") });
    this.address = new Field("address", input({ value: ownAddress() }), { hint: t("hint.address") });
    this.life = new Field("life", choice(DAYS, lifeWords));
    this.fields = [
      ...[this.kind, this.named, this.tenant, this.role, this.origins, this.pairs, this.actFor, this.signs],
      ...[this.nodeId, this.address, this.private, this.maxNodes, this.approval, this.ephemeral, this.slots, this.labelGroup],
      ...[this.nodesLive, this.networks, this.life],
    ];
    this.kind.control.addEventListener("change", () => this.fit());
    this.life.control.addEventListener("change", () => {
      this.isLifeChosen = true;
    });
    this.fit();
  }

  /** Shows the fields of the kind. */
  fit() {
    const kind = this.kind.control.value;
    for (const field of this.fields) field.show(hasField(kind, field.name));
    this.kind.show(!this.only);
    this.kind.explain(t(`kind_words.${kind}`));
    if (!this.isLifeChosen) this.life.control.value = String(defaultLife(kind));
  }

  /**
   * @param {string} title
   * @param {string} yes
   * @param {string} [words]
   */
  open(title, yes, words = "") {
    (this.only ? this.named : this.kind).control.setAttribute("autofocus", "");
    confirm({
      title,
      body: [words && h("p", { class: "calm" }, words), ...this.fields.map((field) => field.element)],
      yes,
      isForm: true,
      act: () => this.create(),
      onProblem: (error) => this.blame(error),
    });
  }

  async create() {
    for (const field of this.fields) field.blame("");
    const values = this.values();
    const address = this.address.control.value.trim();
    // A join string that leads nowhere would be found out when the key exists already.
    if (hasField(values.kind, "address")) socketAddress(address, "");
    const { key } = await post("v1/keys", wishOf(values));
    showOnce(...secretsOf(values.kind, key, address));
    this.onDone();
  }

  /** @returns {Record<string, unknown> & {kind: string}} */
  values() {
    const kind = this.kind.control.value;
    const named = Object.fromEntries(this.labels.map((field) => [field.name, field.control.value]));
    return {
      kind,
      name: text(this.named),
      tenant: text(this.tenant),
      role: this.role.control.value,
      node_id: text(this.nodeId),
      origins: listOf(text(this.origins)),
      pairs: listOf(text(this.pairs)),
      act_for: listOf(text(this.actFor)),
      signs: isChecked(this.signs),
      labels: hasField(kind, "labels") ? labelsOf(named, text(this.others)) : {},
      max_slots: hasField(kind, "max_slots") ? count(this.slots) : 0,
      max_nodes: hasField(kind, "max_nodes") ? count(this.maxNodes) : 0,
      needs_approval: isChecked(this.approval),
      is_ephemeral: isChecked(this.ephemeral),
      is_private: isChecked(this.private),
      nodes_live_ms: Number(this.nodesLive.control.value) * DAY_MS,
      networks: listOf(text(this.networks)),
      expires_in_ms: Number(this.life.control.value) * DAY_MS,
    };
  }

  /**
   * Beside the field, if the words name one.
   * @param {unknown} error
   * @returns {string} what is to be said of the whole form
   */
  blame(error) {
    const isOurs = error instanceof WrongField;
    const words = isOurs ? t(error.word) : problemWords(error);
    const shown = this.fields.filter((field) => !field.element.hidden);
    const name = isOurs ? error.field : faultyField(refusal(error).message, shown.map((field) => field.name));
    const field = shown.find((one) => one.name === name);
    field?.blame(words);
    return field ? "" : words;
  }
}

/**
 * @param {string} kind
 * @param {string} key
 * @param {string} address of an invitation
 * @returns {[string, Secret[]]}
 */
function secretsOf(kind, key, address) {
  if (kind === "enrol") {
    const joined = joinString(socketAddress(address, ""), key);
    return [t("joining.string"), [{ label: t("joining.string"), text: joined, hint: t("joining.string_words") }]];
  }
  const url = urlWithKey(kind, key, ownAddress());
  const more = url ? [{ label: t("access.url"), text: url, hint: t("access.url_words") }] : [];
  return [t("access.secret"), [{ label: t("access.key"), text: key }, ...more]];
}

/** A caller for all tenants must say which one, unless the key is for all as well. */
function ownTenant() {
  const tenant = person()?.tenant ?? "";
  return tenant === "*" ? "default" : tenant;
}

/** An admin of one tenant may let no node hear the others. */
function isOfOneTenant() {
  const who = person();
  return who?.kind === "operator" && who.tenant !== "*";
}

/** Where nodes and clients connect, as far as this page knows. */
function ownAddress() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return `${scheme}://${location.host}${location.pathname.replace(/\/dashboard\/?$/, "")}`;
}

/** @param {Field} field */
function text({ control }) {
  return control.value.trim();
}

/** @param {Field} field */
function isChecked({ control }) {
  return control instanceof HTMLInputElement && control.checked;
}

/**
 * Throws WrongField.
 * @param {Field} field
 */
function count({ name, control }) {
  const value = Number(control.value);
  if (!Number.isInteger(value) || value < 0) throw new WrongField(name, "field.not_a_count");
  return value;
}
