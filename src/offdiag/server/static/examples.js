// Histories to try the page with, made up by the model from items that go together.

import { $, h } from "./dom.js";
import { get } from "./api.js";

const known = new Map(); // by model

/** Shows the examples of a model; `take(items)` makes one of them the history. A model without any shows none. */
export async function showExamples(model, take, signal) {
  if (!known.has(model)) known.set(model, (await get("examples", { model }, signal)).examples);
  const examples = known.get(model).filter((items) => items.length > 1);
  $("or-example").hidden = $("examples").hidden = !examples.length;
  $("examples").replaceChildren(...examples.map((items) => h("li", {}, h("button", {
    type: "button", class: "chip", title: items.map((item) => item.title).join("\n"),
    "aria-label": `Try the example ${items.map((item) => item.title).join(", ")}`, onclick: () => take(items),
  }, h("span", { class: "name" }, items[0].title), h("span", { class: "soft" }, ` + ${items.length - 1}`)))));
}
