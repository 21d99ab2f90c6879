// Pairs that no node serves alone, and that the scheduler serves with several jobs.
import { languageName } from "./format.js";
import { t } from "./words.js";
import { lastPicture } from "./world.js";

/** @import {DetourLook, PairLook} from "../shared/types" */

/** @returns {Map<string, DetourLook>} by pair */
export function allDetours() {
  return new Map((lastPicture().detours ?? []).map((detour) => [`${detour.src}:${detour.tgt}`, detour]));
}

/**
 * The pair as it is served; what a node serves alone takes no detour.
 * @param {PairLook} pair
 * @param {Map<string, DetourLook>} detours
 * @returns {PairLook}
 */
export function withDetour(pair, detours = allDetours()) {
  const detour = pair.nodes ? undefined : detours.get(`${pair.src}:${pair.tgt}`);
  return detour ? { ...pair, room: "detour", level: "notice", detour } : pair;
}

/** @param {DetourLook} detour */
export function detourInWords({ rung, pivot }) {
  const by = pivot ? t("detour.pivot", { language: languageName(pivot) }) : "";
  if (rung === "pivot") return by;
  return [t(`detour.${rung}`), by].filter(Boolean).join(", ");
}
