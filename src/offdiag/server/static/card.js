// The card of a model: where it comes from, how it was set, how good it is and how sure that is.

import { count, h, number, s } from "./dom.js";

const Z95 = 1.96; // a mean ± 1.96 standard errors is its 95 % interval
const WIDTH = 300;

/** One card or several. */
export const cards = (abouts) => abouts.flatMap(card);

function card(about) {
  const facts = [
    ["kind", about.class],
    ["learned from", `${count(about.n_users)} users, ${count(about.n_items - about.new_items)} items`],
    ["new items", about.new_items && `${count(about.new_items)}, which nobody has yet`],
    ["order", about.ordered && "recent choices count for more"],
    ["file", `${about.weights} weights, ${size(about.bytes)}`],
    ["saved", day(about.created)],
    ["can be updated", about.updatable ? "yes" : "no, saved without its Gram"],
    ["fingerprint", String(about.fingerprint ?? "").slice(0, 12)],
  ];
  const settings = Object.entries(about.settings ?? {}).map(([name, value]) => [name, typeof value === "number" ? number(value) : String(value)]);
  return [
    h("p", { class: "name strong" }, about.name),
    table(facts),
    h("h3", {}, "How good"), ...metrics(about.metrics),
    h("h3", {}, "Settings"),
    settings.length ? table(settings) : h("p", { class: "soft" }, "It has none."),
  ];
}

function table(rows) {
  return h("dl", {}, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function metrics(measured) {
  const rows = Object.entries(measured ?? {}).filter(([, metric]) => typeof metric.mean === "number");
  if (!rows.length) return [h("p", { class: "soft" }, "Nothing was measured before this model was saved.")];
  const baseline = rows.some(([, metric]) => typeof metric.popularity === "number");
  return [
    h("div", { class: "metrics" }, rows.map(([name, metric]) => measurement(name, metric))),
    h("p", { class: "soft" }, "On users it had not seen, ± one standard error. A bar that fills its track would be 1; the thin line is the "
      + `95 % interval.${baseline ? " The lower bar shows popular items to everyone." : ""}`),
  ];
}

/** A bar on a track from 0 to 1, over that of the popular items; a metric that is not a share has no bar. */
function measurement(name, { mean, sem, popularity }) {
  const baseline = typeof popularity === "number";
  const text = sem ? `${mean.toFixed(4)} ± ${sem.toFixed(4)}` : mean.toFixed(4);
  const other = baseline ? `popularity ${popularity.toFixed(4)}` : "";
  const words = [h("span", { class: "name" }, name), h("span", { class: "amount" }, text)];
  if (![mean, popularity ?? 0].every((value) => value >= 0 && value <= 1)) return h("div", { class: "metric" }, words, other ? h("span", { class: "soft baseline" }, other) : null);
  const x = (value) => WIDTH * Math.min(Math.max(value, 0), 1);
  const [low, high] = [x(mean - Z95 * (sem ?? 0)), x(mean + Z95 * (sem ?? 0))];
  const height = baseline ? 22 : 14;
  const label = `${name}: ${text}${baseline ? `; ${other}` : ""}, on a scale from 0 to 1`;
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none", height },
    s("rect", { class: "whole", x: 0, y: 2, width: WIDTH, height: 10, rx: 2 }),
    s("rect", { class: "mean", x: 0, y: 2, width: x(mean), height: 10, rx: 2 }),
    sem ? s("path", { class: "error", d: `M${low} 7H${high}M${low} 3V11M${high} 3V11` }) : null,
    baseline ? [s("rect", { class: "whole", x: 0, y: 14, width: WIDTH, height: 6, rx: 2 }),
      s("rect", { class: "popularity", x: 0, y: 14, width: x(popularity), height: 6, rx: 2 })] : null);
  return h("div", { class: "metric" }, words, drawing, other ? h("span", { class: "soft baseline" }, other) : null);
}

function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB"];
  let n = 0;
  for (; bytes >= 1000 && n < 3; n += 1) bytes /= 1000;
  return `${number(bytes)} ${units[n]}`;
}

function day(text) {
  const when = new Date(text);
  return Number.isNaN(when.valueOf()) ? text : when.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}
