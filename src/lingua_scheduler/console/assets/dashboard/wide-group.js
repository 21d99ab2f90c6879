// Nodes that serve any pair of many languages, as one line that can be opened.
import { h, setAttribute, setText } from "./dom.js";
import { compare, languageName } from "./format.js";
import { SIGNS } from "./matrix.js";
import { roomInWords, wideInWords } from "./wide.js";
import { t } from "./words.js";

/** @import {WideLook} from "../shared/types" */

/** Opened, it names the languages. */
export class WideGroup {
  /** @param {(q: string) => void} onSearch */
  constructor(onSearch) {
    this.sign = h("span", { class: "swatch", "aria-hidden": "true" });
    this.words = h("strong");
    this.room = h("span");
    this.only = h("span", { class: "hangs-words" });
    this.codes = h("div", { class: "chips" });
    this.element = h(
      "details",
      { class: "card wide-group", toggle: () => this.open() },
      h("summary", {}, this.sign, " ", this.words, " · ", this.room, this.only),
      h("p", { class: "faint" }, t("wide.hint")),
      this.codes,
    );
    this.onSearch = onSearch;
    /** @type {WideLook | null} */
    this.look = null;
  }

  open() {
    if (this.look === null || this.codes.childElementCount || !this.element.open) return;
    const codes = [...new Set([...this.look.sources, ...this.look.text])];
    codes.sort((one, other) => compare(languageName(one), languageName(other)));
    const chips = codes.map((code) =>
      h(
        "button",
        { type: "button", class: "chip", title: code, click: () => this.onSearch(code) },
        languageName(code),
      ),
    );
    this.codes.replaceChildren(...chips);
  }

  /** @param {WideLook} wide */
  update(wide) {
    this.look = wide;
    const level = wide.room;
    setAttribute(this.sign, "data-level", level);
    setText(this.sign, SIGNS[level]);
    setText(this.words, wideInWords(wide));
    setText(this.room, roomInWords(wide));
    setText(this.only, wide.hangs_on ? ` ◆ ${t("pairs.only", { node: wide.hangs_on })}` : "");
  }
}
