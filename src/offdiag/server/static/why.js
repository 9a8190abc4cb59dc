// The panel under an item: why it has its rank, which items are similar, and what a single weight is made of.

import { bar, column, count, h, iconButton, number, scaleOf } from "./dom.js";
import { post } from "./api.js";
import { keyOf } from "./state.js";

const SIMILAR = 8;
const REASONS = 12; // bars before the rest is summed up
const THROUGH = 5;

/** Fills `panel` for an item; `history` may be empty, `act` is what the page can do with an item. */
export async function fillPanel(panel, item, { history, model, act, learn }) {
  panel.replaceChildren(h("p", { class: "soft" }, "Looking it up…"));
  const inHistory = history.some((id) => keyOf(id) === keyOf(item.id));
  const parts = await Promise.all([
    history.length && !inHistory ? attempt(post("explain", { history, item: item.id, model })) : null,
    attempt(post("similar", { item: item.id, k: SIMILAR, model })),
  ]);
  const [reasons, alike] = parts;
  const gone = parts.find((part) => part?.error && part.error.status === 0);
  if (gone) throw gone.error;
  if (reasons?.said) learn(reasons.said.contributions);
  if (alike.said) learn(alike.said.items);
  panel.replaceChildren(
    ...(reasons ? explanation(reasons, model) : []),
    ...similar(alike, act, item),
  );
}

const attempt = (question) => question.then((said) => ({ said }), (error) => ({ error }));

function explanation({ said, error }, model) {
  if (error) return [h("h4", {}, "Why?"), h("p", { class: "soft" }, error.message)];
  const parts = said.contributions;
  const scale = scaleOf(parts.map((part) => part.contribution));
  const shown = parts.slice(0, parts.length > REASONS + 1 ? REASONS : parts.length);
  const rest = parts.slice(shown.length);
  const write = column(parts.map((part) => part.contribution));
  const line = (part) => contribution(part, said, scale, write, model);
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
  const place = said.rank ? `Rank ${count(said.rank)}` : "In the history";
  return [
    h("h4", {}, "Why?"),
    h("p", { class: "soft" }, `${place}. What each item of your history adds; together the score of ${number(said.score)}.`
      + (parts[0]?.rank_without === null ? " The history is too long for ranks without each." : "")),
    h("ul", { class: "bars" }, lines),
  ];
}

function contribution(part, said, scale, write, model) {
  const detail = h("div", { class: "pair", hidden: true });
  const button = h("button", {
    type: "button", class: "link name", "aria-expanded": "false",
    title: "What this weight says beyond how often the two go together",
    onclick: async () => {
      detail.hidden = !detail.hidden;
      button.setAttribute("aria-expanded", String(!detail.hidden));
      if (!detail.hidden && !detail.childElementCount) await fillPair(detail, part, said.item, model);
    },
  }, part.title);
  return h("li", {}, button, bar(part.contribution, ...scale),
    h("span", { class: "amount" }, write(part.contribution)),
    h("span", { class: "without" }, without(said.rank, part.rank_without)), detail);
}

function without(rank, other) {
  if (!rank || !other) return "";
  if (other === rank) return `without it: still rank ${count(rank)}`;
  return `without it: rank ${count(rank)} → ${count(other)}`;
}

async function fillPair(detail, part, item, model) {
  detail.replaceChildren(h("p", { class: "soft" }, "Looking it up…"));
  const { said, error } = await attempt(post("pair", { item: part.id, other: item.id, model }));
  if (error) {
    detail.replaceChildren(h("p", { class: "soft" }, error.message));
    return;
  }
  const first = `Its weight is ${number(said.weight)}; were it the only item to go by, it would be ${number(said.alone)}.`;
  if (!said.together) {
    detail.replaceChildren(h("p", {}, `${first} Nobody in the data has both.`));
    return;
  }
  const shown = said.through.slice(0, THROUGH);
  const others = said.through.slice(THROUGH).reduce((sum, third) => sum + third.amount, said.others);
  const lines = [["its own weight", said.direct], ...shown.map((third) => [third.title, third.amount])];
  if (others) lines.push([`${count(said.n_others + said.through.length - shown.length)} other items`, others]);
  if (Math.abs(said.rest) > 0.001 * said.together) lines.push(["not explained by the model", said.rest]);
  const scale = scaleOf(lines.map(([, amount]) => amount / said.together));
  const write = column(lines.map(([, amount]) => (100 * amount) / said.together), false);
  detail.replaceChildren(
    h("p", {}, `${first} Of what the two have in common, these shares go through:`),
    h("ul", { class: "bars small" }, lines.map(([name, amount]) => h("li", {},
      h("span", { class: "name" }, name), bar(amount / said.together, ...scale),
      h("span", { class: "amount" }, `${write((100 * amount) / said.together)} %`)))),
  );
}

function similar({ said, error }, act, item) {
  const problem = error ? error.message : said.items.length ? null : "There are no others.";
  if (problem) return [h("h4", {}, "Similar items"), h("p", { class: "soft" }, problem)];
  return [
    h("h4", {}, "Similar items"),
    h("ul", { class: "similar" }, said.items.map((other) => h("li", {},
      h("span", { class: "name" }, other.title),
      act.has(other.id) ? h("span", { class: "soft" }, "in your history")
        : iconButton("add", `Add ${other.title}`, () => act.add(other), { "data-focus": `like:${keyOf(item.id)}:${keyOf(other.id)}` })))),
  ];
}
