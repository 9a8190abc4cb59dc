// The panel under an item: why it has its rank, which items are similar, and what a single weight is made of.

import { bar, column, count, h, iconButton, number, scaleOf } from "./dom.js";
import { post } from "./api.js";
import { becauseLike, newMark } from "./item.js";
import { keyOf } from "./state.js";

const SIMILAR = 8;
const REASONS = 12; // bars before the rest is summed up
const THROUGH = 5;

/** Fills `panel` for an item; `history` may be empty, `act` is what the page can do with an item. */
export async function fillPanel(panel, item, { history, times, model, act, learn }) {
  panel.replaceChildren(h("p", { class: "soft" }, "Looking it up…"));
  const inHistory = history.some((id) => keyOf(id) === keyOf(item.id));
  const parts = await Promise.all([
    history.length && !inHistory ? attempt(post("explain", { history, times, item: item.id, model })) : null,
    attempt(post("similar", { item: item.id, k: SIMILAR, model })),
  ]);
  const [reasons, alike] = parts;
  const gone = parts.find((part) => part?.error && part.error.status === 0);
  if (gone) throw gone.error;
  if (reasons?.reply) learn(reasons.reply.contributions);
  if (alike.reply) learn(alike.reply.items);
  panel.replaceChildren(
    ...(reasons ? explanation(reasons, model, history) : []),
    ...similar(alike, act, item),
  );
}

const attempt = (question) => question.then((reply) => ({ reply }), (error) => ({ error }));

function explanation({ reply, error }, model, history) {
  if (error) return [h("h4", {}, "Why?"), h("p", { class: "soft" }, error.message)];
  const parts = reply.contributions;
  const scale = scaleOf(parts.map((part) => part.contribution));
  const shown = parts.slice(0, parts.length > REASONS + 1 ? REASONS : parts.length);
  const rest = parts.slice(shown.length);
  const write = column(parts.map((part) => part.contribution));
  const ages = agesOf(parts, history);
  const line = (part) => contribution(part, reply, scale, write, model, ages.get(keyOf(part.id)));
  const lines = shown.map(line);
  if (rest.length) {
    const sum = rest.reduce((total, part) => total + part.contribution, 0);
    const others = h("li", {},
      h("button", {
        type: "button", class: "link name", title: "Show each of them",
        onclick: () => {
          const each = rest.map(line);
          others.replaceWith(...each);
          each[0].querySelector("button").focus();
        },
      }, `${count(rest.length)} others together`),
      bar(sum, Math.min(scale[0], sum), Math.max(scale[1], sum)), h("span", { class: "amount" }, write(sum)));
    lines.push(others);
  }
  const place = reply.rank ? `Rank ${count(reply.rank)}` : "In the history";
  return [
    h("h4", {}, "Why?"),
    h("p", { class: "soft" }, `${place}. What each item of your history adds; together the score of ${number(reply.score)}.`
      + (ages.size ? " Older choices count for less." : "")
      + (parts[0]?.rank_without === null ? " The history is too long for ranks without each." : "")),
    ...(reply.like?.length ? [h("p", { class: "soft like" }, `It is new, and nobody has it yet: it is here ${becauseLike(reply.like, reply.like.length)}.`)] : []),
    h("ul", { class: "bars" }, lines),
  ];
}

/** What an item counts for because of its age, as text by its key; without those that count in full. */
function agesOf(parts, history) {
  const weights = new Map(parts.map((part) => [keyOf(part.id), part.age_weight ?? 1]));
  const known = history.map(keyOf).filter((key) => weights.has(key)); // what a model does not know takes no place
  const text = (back, weight) => `${back === 1 ? "one choice" : `${count(back)} choices`} earlier: × ${number(weight)}`;
  return new Map(known.map((key, at) => [key, weights.get(key), known.length - 1 - at])
    .filter(([, weight]) => weight !== 1).map(([key, weight, back]) => [key, text(back, weight)]));
}

function contribution(part, reply, scale, write, model, age) {
  const detail = h("div", { class: "pair", hidden: true });
  const button = h("button", {
    type: "button", class: "link name", "aria-expanded": "false",
    title: "What this weight says beyond how often the two go together",
    onclick: async () => {
      detail.hidden = !detail.hidden;
      button.setAttribute("aria-expanded", String(!detail.hidden));
      if (!detail.hidden && !detail.childElementCount) await fillPair(detail, part, reply.item, model);
    },
  }, part.title);
  return h("li", {}, button, bar(part.contribution, ...scale),
    h("span", { class: "amount" }, write(part.contribution)),
    h("span", { class: "without" }, age && h("span", { class: "aged" }, age), without(reply.rank, part.rank_without)), detail);
}

function without(rank, other) {
  if (!rank || !other) return "";
  if (other === rank) return `without it: still rank ${count(rank)}`;
  return `without it: rank ${count(rank)} → ${count(other)}`;
}

async function fillPair(detail, part, item, model) {
  detail.replaceChildren(h("p", { class: "soft" }, "Looking it up…"));
  const { reply, error } = await attempt(post("pair", { item: part.id, other: item.id, model }));
  if (error) {
    detail.replaceChildren(h("p", { class: "soft" }, error.message));
    return;
  }
  const first = `Its weight is ${number(reply.weight)}; were it the only item to go by, it would be ${number(reply.alone)}.`;
  if (!reply.together) {
    detail.replaceChildren(h("p", {}, `${first} Nobody in the data has both.`));
    return;
  }
  const shown = reply.through.slice(0, THROUGH);
  const others = reply.through.slice(THROUGH).reduce((sum, third) => sum + third.amount, reply.others);
  const lines = [["its own weight", reply.direct], ...shown.map((third) => [third.title, third.amount])];
  if (others) lines.push([`${count(reply.n_others + reply.through.length - shown.length)} other items`, others]);
  if (Math.abs(reply.rest) > 0.001 * reply.together) lines.push(["not explained by the model", reply.rest]);
  const scale = scaleOf(lines.map(([, amount]) => amount / reply.together));
  const write = column(lines.map(([, amount]) => (100 * amount) / reply.together), false);
  detail.replaceChildren(
    h("p", {}, `${first} Of what the two have in common, these shares go through:`),
    h("ul", { class: "bars small" }, lines.map(([name, amount]) => h("li", {},
      h("span", { class: "name" }, name), bar(amount / reply.together, ...scale),
      h("span", { class: "amount" }, `${write((100 * amount) / reply.together)} %`)))),
  );
}

function similar({ reply, error }, act, item) {
  const problem = error ? error.message : reply.items.length ? null : "There are no others.";
  if (problem) return [h("h4", {}, "Similar items"), h("p", { class: "soft" }, problem)];
  return [
    h("h4", {}, "Similar items"),
    h("ul", { class: "similar" }, reply.items.map((other) => h("li", {},
      h("span", { class: "name" }, other.title, newMark(other)),
      act.has(other.id) ? h("span", { class: "soft" }, "in your history")
        : iconButton("add", `Add ${other.title}`, () => act.add(other), { "data-focus": `like:${keyOf(item.id)}:${keyOf(other.id)}` })))),
  ];
}
