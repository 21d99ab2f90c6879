// Choices that were kept in this browser, perhaps by another release.

/**
 * What can be used of them; the defaults for the rest.
 * @template {Record<string, string | number | boolean>} T
 * @param {string | null} text
 * @param {T} defaults
 * @param {Record<string, (value: any) => boolean>} allowed which values of the right type can be used, where not all
 * @returns {T}
 */
export function usable(text, defaults, allowed) {
  try {
    const kept = JSON.parse(text ?? "{}");
    const known = Object.entries(defaults).filter(
      ([name, value]) => typeof kept[name] === typeof value && (allowed[name]?.(kept[name]) ?? true),
    );
    return { ...defaults, ...Object.fromEntries(known.map(([name]) => [name, kept[name]])) };
  } catch {
    return { ...defaults };
  }
}
