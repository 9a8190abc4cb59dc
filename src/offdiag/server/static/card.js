// The card of a model: where it comes from, how it was set, how good it is and how sure that is.

import { count, h, number, s } from "./dom.js";

const Z95 = 1.96; // a mean ± 1.96 standard errors is its 95 % interval
const WIDTH = 300;

/** One card or several, their metrics drawn to one scale. */
export function cards(abouts) {
  const all = abouts.flatMap((about) => Object.values(about.metrics ?? {}));
  const most = Math.max(...all.map((metric) => (metric.mean ?? 0) + Z95 * (metric.sem ?? 0)), 1e-9);
  return abouts.flatMap((about) => card(about, most));
}

function card(about, most) {
  const facts = [
    ["kind", about.class],
    ["learned from", `${count(about.n_users)} users, ${count(about.n_items)} items`],
    ["file", `${about.weights} weights, ${size(about.bytes)}`],
    ["saved", day(about.created)],
    ["can be updated", about.updatable ? "yes" : "no, saved without its Gram"],
    ["fingerprint", String(about.fingerprint ?? "").slice(0, 12)],
  ];
  const settings = Object.entries(about.settings ?? {}).map(([name, value]) => [name, typeof value === "number" ? number(value) : String(value)]);
  return [
    h("p", { class: "name strong" }, about.name),
    table(facts),
    h("h3", {}, "How good"), ...metrics(about.metrics, most),
    h("h3", {}, "Settings"),
    settings.length ? table(settings) : h("p", { class: "soft" }, "It has none."),
  ];
}

function table(rows) {
  return h("dl", {}, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function metrics(measured, most) {
  const rows = Object.entries(measured ?? {}).filter(([, metric]) => typeof metric.mean === "number");
  if (!rows.length) return [h("p", { class: "soft" }, "Nothing was measured before this model was saved.")];
  return [
    h("div", { class: "metrics" }, rows.map(([name, metric]) => measurement(name, metric, most))),
    h("p", { class: "soft" }, "On users it had not seen, ± one standard error; the thin line is the 95 % interval of the mean."),
  ];
}

function measurement(name, { mean, sem }, most) {
  const x = (value) => (WIDTH * Math.max(value, 0)) / most;
  const text = sem ? `${mean.toFixed(4)} ± ${sem.toFixed(4)}` : mean.toFixed(4);
  const [low, high] = [x(mean - Z95 * (sem ?? 0)), x(mean + Z95 * (sem ?? 0))];
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} 14`, role: "img", "aria-label": `${name}: ${text}`, preserveAspectRatio: "none" },
    s("rect", { class: "mean", x: 0, y: 2, width: x(mean), height: 10, rx: 2 }),
    sem ? s("path", { class: "error", d: `M${low} 7H${high}M${low} 3V11M${high} 3V11` }) : null);
  return h("div", { class: "metric" }, h("span", { class: "name" }, name), h("span", { class: "amount" }, text), drawing);
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
