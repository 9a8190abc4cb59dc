// What is chosen, kept in the address: a link shares it, and the back button undoes a step.

export const FIRST = 20; // length of a list before anyone asks for more

/** The service takes 7 for "7" where only one of them can be meant, so here they are the same item. */
export const keyOf = (id) => String(id);

export function parse(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const k = Number(given.get("k"));
  return {
    history: ids(given.get("h")),
    block: ids(given.get("b")),
    model: given.get("m"),
    other: given.get("c"),
    k: Number.isInteger(k) && k >= 1 && k <= 100 ? k : FIRST,
    open: ids(given.get("o"))[0] ?? null,
  };
}

export function format(state) {
  const out = new URLSearchParams();
  if (state.history.length) out.set("h", JSON.stringify(state.history));
  if (state.block.length) out.set("b", JSON.stringify(state.block));
  if (state.model) out.set("m", state.model);
  if (state.other) out.set("c", state.other);
  if (state.k !== FIRST) out.set("k", state.k);
  if (state.open !== null) out.set("o", JSON.stringify([state.open]));
  return out.toString();
}

/** A list of ids as the address holds it; anything else is an empty list. */
function ids(text) {
  let found;
  try { found = JSON.parse(text); } catch { return []; }
  if (!Array.isArray(found)) return [];
  const usable = found.filter((id) => typeof id === "string" || Number.isSafeInteger(id));
  return [...new Map(usable.map((id) => [keyOf(id), id])).values()];
}
