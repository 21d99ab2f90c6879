// Light or dark: one choice for all pages. first-paint.js applies it before anything is drawn.
import { remember } from "./storage.js";

export function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/** Turns light into dark and back, and remembers it. */
export function turnTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember("theme", theme);
}
