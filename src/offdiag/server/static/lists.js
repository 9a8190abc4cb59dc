// Ranked lists: of one model with reasons, or of two, side by side or merged, with what each ranks differently.

import { bar, column, count, h, iconButton, scaleOf, share } from "./dom.js";
import { becauseLike, facts, hasPictures, newMark, picture } from "./item.js";
import { keyOf } from "./state.js";

const LIKE = 3; // items that a new one is like, under a recommendation

const listClass = (pictured) => (pictured ? "items pictured" : "items");

/** The list of one model. */
export function oneList(reply, act, popular) {
  const shown = reply.items.flatMap((item) => (item.reasons ?? []).map((reason) => reason.contribution));
  const scale = scaleOf(shown);
  const write = column(shown);
  const score = column(reply.items.map((item) => item.score), false);
  const pictured = hasPictures(reply.items);
  return h("ol", { class: listClass(pictured) }, reply.items.map((item, n) =>
    row(item, n + 1, reply.model, act, {
      pictured,
      score: popular ? null : score(item.score),
      below: [popular ? popularity(item) : (item.reasons ?? []).length ? reasons(item.reasons, scale, write) : null,
        item.like?.length ? h("p", { class: "reasons like" }, becauseLike(item.like, LIKE)) : null],
    })));
}

function reasons(parts, scale, write) {
  return h("ul", { class: "reasons" }, parts.map((part) => h("li", {},
    bar(part.contribution, ...scale),
    h("span", { class: "name" }, part.title),
    h("span", { class: "unseen" }, ` adds ${write(part.contribution)}`))));
}

/** Why an item is in the list of popular ones: how many users have it, or its share of all interactions. */
function popularity(item) {
  if (item.new) return h("p", { class: "reasons popularity" }, "nobody has it yet");
  const users = typeof item.users === "number";
  return h("p", { class: "reasons popularity" },
    users ? bar(item.users, 0, 1) : null,
    h("span", {}, users ? `${share(item.users)} of users have it` : `${share(item.score)} of all interactions`));
}

/** Two lists, aligned row by row; the badge of an item shows its rank in the other one. */
export function twoLists(reply, act) {
  const pictured = hasPictures(reply.lists.flat());
  const columns = reply.models.map((model, side) => {
    const items = reply.lists[side];
    const id = `list-${side}`;
    return h("div", { class: "column" },
      h("h3", { id }, model),
      h("ol", { class: listClass(pictured), "aria-labelledby": id }, items.map((item) =>
        row(item, item.rank, model, act, { ...difference(item, items.length), score: null, side, pictured }))));
  });
  const most = Math.max(...reply.lists.map((items) => items.length));
  const table = h("div", { class: "columns" }, columns);
  table.style.setProperty("--rows", String(most + 1)); // the name of the model, and its items
  return table;
}

/** Both lists as one, for a narrow screen: by the better of the two ranks, with both of them. */
export function mergedList(reply, act) {
  const found = new Map();
  reply.lists.forEach((items, side) => items.forEach((item) => {
    const ranks = side ? [item.other_rank, item.rank] : [item.rank, item.other_rank];
    if (!found.has(keyOf(item.id))) found.set(keyOf(item.id), { item, ranks, best: item.rank, side });
    else if (item.rank < found.get(keyOf(item.id)).best) Object.assign(found.get(keyOf(item.id)), { item, best: item.rank, side });
  }));
  const k = Math.max(...reply.lists.map((items) => items.length));
  const merged = [...found.values()].sort((a, b) => a.best - b.best || a.side - b.side);
  const pictured = hasPictures(reply.lists.flat());
  return h("ol", { class: `${listClass(pictured)} merged` }, merged.map(({ item, ranks, side }, n) =>
    row(item, n + 1, reply.models[side], act, { score: null, side, place: false, pictured, below: h("p", { class: "ranks" },
      reply.models.map((model, at) => {
        const rank = ranks[at];
        const text = rank === null ? "cannot recommend it" : count(rank);
        return h("span", { class: `from-${at}${rank === null || rank > k ? " far" : ""}` }, `${model} `, h("strong", {}, text));
      })) })));
}

/** Which list is made of popular items because its model knows nothing of the history; none if both are. */
export function popularSides(reply) {
  if (reply.fallback.every(Boolean)) return "";
  return reply.models.filter((_, side) => reply.fallback[side])
    .map((model) => `Nothing in your history is known to ${model}: its list is popular items.`).join(" ");
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

function row(item, rank, model, act, { score, below = null, badge = null, side = 0, place = true, pictured = false }) {
  const key = keyOf(item.id);
  const panel = h("div", { class: "panel", id: `why-${side}-${rank}`, hidden: true });
  const title = h("button", {
    type: "button", class: "title", "aria-expanded": "false", "aria-controls": panel.id,
    "data-focus": `open:${side}:${key}`, onclick: () => act.toggle(item, model, title, panel),
  }, item.title);
  const line = h("li", { class: "item", "data-id": key, "data-side": side },
    h("div", { class: "line" },
      place ? h("span", { class: "rank", "aria-hidden": "true" }, count(rank)) : null,
      picture(item, pictured),
      h("div", { class: "what" }, title, newMark(item), facts(item)),
      badge,
      score === null ? null : h("span", { class: "score", title: "score" }, score),
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
