// Ranked lists: of one model with reasons, or of two side by side with what each ranks differently.

import { bar, column, count, h, iconButton, scaleOf } from "./dom.js";
import { keyOf } from "./state.js";

/** The list of one model. */
export function oneList(reply, act, popular) {
  const shown = reply.items.flatMap((item) => (item.reasons ?? []).map((reason) => reason.contribution));
  const scale = scaleOf(shown);
  const write = column(shown);
  const score = column(reply.items.map((item) => item.score * (popular ? 100 : 1)), false);
  return h("ol", { class: "items" }, reply.items.map((item, n) =>
    row(item, n + 1, reply.model, act, {
      score: popular ? `${score(100 * item.score)} %` : score(item.score),
      what: popular ? "share of all interactions" : "score",
      below: (item.reasons ?? []).length ? reasons(item.reasons, scale, write) : null,
    })));
}

function reasons(parts, scale, write) {
  return h("ul", { class: "reasons" }, parts.map((part) => h("li", {},
    bar(part.contribution, ...scale),
    h("span", { class: "name" }, part.title),
    h("span", { class: "unseen" }, ` adds ${write(part.contribution)}`))));
}

/** Two lists; the badge of an item shows its rank in the other one. */
export function twoLists(reply, act) {
  const columns = reply.models.map((model, side) => {
    const items = reply.lists[side];
    const id = `list-${side}`;
    return h("div", { class: "column" },
      h("h3", { id }, model),
      reply.fallback[side] && !reply.fallback.every(Boolean)
        ? h("p", { class: "only" }, "Popular items: nothing in your history is known to this model.") : null,
      h("ol", { class: "items", "aria-labelledby": id }, items.map((item) =>
        row(item, item.rank, model, act, { ...difference(item, items.length), score: null, side }))));
  });
  return h("div", { class: "columns" }, columns);
}

/** Its rank in the other model: a badge next to the title, or a line below it for what only this one recommends. */
function difference(item, k) {
  const there = item.other_rank;
  if (there === null) return { below: h("p", { class: "only" }, "only here; the other model cannot recommend it") };
  if (there > k) return { below: h("p", { class: "only" }, `only here; rank ${count(there)} there`) };
  const step = there - item.rank;
  if (step === 0) return { badge: h("span", { class: "badge same", title: "The same rank in both" }, "=") };
  const words = `${count(Math.abs(step))} ${step > 0 ? "higher" : "lower"} than in the other model`;
  return { badge: h("span", { class: step > 0 ? "badge up" : "badge down", title: words },
    h("span", { "aria-hidden": "true" }, `${step > 0 ? "▲" : "▼"} ${count(Math.abs(step))}`), h("span", { class: "unseen" }, words)) };
}

function row(item, rank, model, act, { score, what = "score", below = null, badge = null, side = 0 }) {
  const key = keyOf(item.id);
  const panel = h("div", { class: "panel", id: `why-${side}-${rank}`, hidden: true });
  const title = h("button", {
    type: "button", class: "title", "aria-expanded": "false", "aria-controls": panel.id,
    "data-focus": `open:${side}:${key}`, onclick: () => act.toggle(item, model, title, panel),
  }, item.title);
  const line = h("li", { class: "item", "data-id": key, "data-side": side },
    h("div", { class: "line" },
      h("span", { class: "rank", "aria-hidden": "true" }, count(rank)),
      title,
      badge,
      score === null ? null : h("span", { class: "score", title: what }, score),
      act.has(item.id) ? null : h("span", { class: "actions" },
        iconButton("add", `Add ${item.title} to your history`, () => act.add(item), { "data-focus": `add:${side}:${key}` }),
        iconButton("block", `Never recommend ${item.title}`, () => act.block(item), { "data-focus": `block:${side}:${key}` }))),
    below, panel);
  for (const [type, on] of [["mouseenter", true], ["mouseleave", false], ["focusin", true], ["focusout", false]]) {
    line.addEventListener(type, () => twins(key, on));
  }
  return line;
}

/** The same item in the other list lights up. */
function twins(key, on) {
  const all = [...document.querySelectorAll(".columns .item")].filter((line) => line.dataset.id === key);
  for (const line of all) line.classList.toggle("twin", on && all.length > 1);
}
