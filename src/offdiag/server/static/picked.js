// What is chosen: the history, and what is blocked.

import { h, iconButton } from "./dom.js";
import { keepFocus } from "./focus.js";
import { keyOf } from "./state.js";

const $ = (id) => document.getElementById(id);

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

  keepFocus(() => {
    $("history").replaceChildren(...state.history.map(chosen));
    $("blocked").replaceChildren(
      ...state.block.map((id) => line(id, "Unblock", act.unblock, h("span", { class: "name" }, titleOf(id)), null)));
  });
  $("history-empty").hidden = state.history.length > 0;
  $("clear").hidden = state.history.length < 2;
  $("blocked-box").hidden = state.block.length === 0;
}
