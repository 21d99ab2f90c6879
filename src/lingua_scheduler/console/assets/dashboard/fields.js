// Fields of a form in a dialog: each has a label, perhaps a hint, and the place where its fault is told.
import { h, setAttribute, setText, show } from "./dom.js";
import { t } from "./words.js";

/** @typedef {HTMLInputElement | HTMLSelectElement} Control */

let made = 0;

export class Field {
  /**
   * @param {string} name by which the scheduler calls it
   * @param {Control} control
   * @param {{hint?: string, label?: string}} [words]
   */
  constructor(name, control, { hint = "", label = t(`field.${name}`) } = {}) {
    made += 1;
    const id = `field-${made}`;
    this.name = name;
    this.control = control;
    this.problem = h("p", { class: "problem", id: `${id}-problem`, role: "alert" });
    this.hint = h("p", { class: "hint", id: `${id}-hint`, hidden: !hint }, hint);
    control.id = id;
    control.setAttribute("aria-describedby", `${id}-hint ${id}-problem`);
    const isCheck = control instanceof HTMLInputElement && control.type === "checkbox";
    const more = h("div", { class: "field-control" }, isCheck ? null : control, this.hint, this.problem);
    this.element = isCheck
      ? h("div", { class: "field field-check" }, control, h("div", {}, h("label", { for: id }, label), more))
      : h("div", { class: "field" }, h("label", { for: id }, label), more);
  }

  /** @param {string} words empty: nothing is wrong with it */
  blame(words) {
    setText(this.problem, words);
    setAttribute(this.control, "aria-invalid", words ? "true" : null);
    if (words) this.control.focus();
  }

  /** @param {string} words */
  explain(words) {
    setText(this.hint, words);
    show(this.hint, words !== "");
  }

  /** @param {boolean} isShown */
  show(isShown) {
    show(this.element, isShown);
  }
}

/** Several controls that are one value of the scheduler. */
export class FieldGroup {
  /**
   * @param {string} name
   * @param {string} legend
   * @param {Field[]} fields
   */
  constructor(name, legend, fields) {
    this.name = name;
    this.fields = fields;
    this.problem = h("p", { class: "problem", role: "alert" });
    this.element = h(
      "fieldset",
      {},
      h("legend", {}, legend),
      fields.map((field) => field.element),
      this.problem,
    );
  }

  /** @param {string} words */
  blame(words) {
    setText(this.problem, words);
    if (words) this.fields[0].control.focus();
  }

  /** @param {boolean} isShown */
  show(isShown) {
    show(this.element, isShown);
  }
}

/** @param {Record<string, string | number | boolean>} [more] */
export function input(more = {}) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "off", ...more });
}

/** @param {boolean} [isChecked] at first */
export function checkbox(isChecked = false) {
  return h("input", { type: "checkbox", checked: isChecked });
}

/**
 * @param {readonly string[]} values
 * @param {(value: string) => string} words
 */
export function choice(values, words) {
  return h("select", {}, values.map((value) => h("option", { value }, words(value))));
}

/** @param {string} days */
export function lifeWords(days) {
  return days === "0" ? t("access.forever") : t("access.days", { n: Number(days) });
}
