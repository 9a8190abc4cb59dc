// What is chosen: the history, and what is blocked.

import { $, count, h, iconButton, keepFocus } from "./dom.js";
import { keyOf } from "./state.js";

const SHOWN = 100; // lines of each kind: a browser is slow to lay out thousands of buttons
const whole = new Set(); // the lists that are shown completely

export function showPicked(state, titleOf, act) {
  const line = (id, verb, undo, name, panel) => h("li", { "data-id": keyOf(id) },
    h("div", { class: "line" }, name,
      iconButton("remove", `${verb} ${titleOf(id)}`, () => undo(id), { "data-focus": `${verb}:${keyOf(id)}` })), panel);

  function chosen(id) {
    const panel = h("div", { class: "panel", hidden: true });
    const name = h("button", {
      type: "button", class: "title", "aria-expanded": "false", "data-focus": `mine:${keyOf(id)}`,
      onclick: () => act.toggle({ id, title: titleOf(id) }, state.model, name, panel),
    }, titleOf(id));
    return line(id, "Remove", act.remove, name, panel);
  }

  const kept = (id) => line(id, "Unblock", act.unblock, h("span", { class: "name" }, titleOf(id)), null);

  /** The newest are the last: of a long list the beginning is hidden until it is requested. */
  function fill(name, ids, make) {
    const hidden = whole.has(name) ? 0 : Math.max(ids.length - SHOWN, 0);
    const earlier = h("li", {}, h("button", {
      type: "button", class: "quiet", onclick: () => { whole.add(name); showPicked(state, titleOf, act); $("you").focus(); },
    }, `Show ${count(hidden)} earlier`));
    $(name).replaceChildren(...(hidden ? [earlier] : []), ...ids.slice(hidden).map(make));
  }

  const before = $("history").childElementCount;
  keepFocus(() => {
    fill("history", state.history, chosen);
    fill("blocked", state.block, kept);
  });
  if (before && $("history").childElementCount > before) $("history").scrollLeft = $("history").scrollWidth; // on a phone it is one line
  $("history-empty").hidden = state.history.length > 0;
  $("clear").hidden = state.history.length < 2;
  $("blocked-box").hidden = state.block.length === 0;
}
