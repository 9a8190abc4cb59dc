// Elements without HTML strings: whatever the server sends becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("li", {class: "x", onclick: f, "aria-label": "…"}, child, "text", …); null and false are left out. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for drawings. */
export function s(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const ICONS = {
  add: "M8 3v10M3 8h10",
  remove: "M4 4l8 8M12 4l-8 8",
  block: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M4.2 4.2l7.6 7.6",
  open: "M5 6.5l3 3l3-3",
};

/** A small button with a drawing; its name is for those who do not see it, and for the pointer that rests on it. */
export function iconButton(icon, name, onclick, props = {}) {
  const drawing = s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: ICONS[icon] }));
  return h("button", { type: "button", class: `icon ${icon}`, title: name, "aria-label": name, onclick, ...props }, drawing);
}

const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (value) => few.format(value).replace("-", "−");

/** Numbers of one column, all with as many decimals as give the largest of them three digits. */
export function column(values, signs = true) {
  const most = Math.max(...values.map(Math.abs), 1e-9);
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(most)), 0), 9);
  return (value) => (signs && value > 0 ? "+" : "") + value.toFixed(digits).replace("-", "−");
}
export const count = (value) => whole.format(value);

/** 0.41 as "41 %", with two digits for small ones. */
export const share = (value) => `${value >= 0.995 ? "100" : percent.format(100 * value)} %`;

/** A bar from the zero line to one side of it; `low` and `high` are the ends of the scale. */
export function bar(value, low, high) {
  const span = high - low || 1;
  const mark = h("span", { class: value < 0 ? "bar minus" : "bar" });
  mark.style.left = `${(100 * (Math.min(value, 0) - low)) / span}%`;
  mark.style.width = `${Math.max((100 * Math.abs(value)) / span, value ? 0.8 : 0)}%`;
  const track = h("span", { class: "track", "aria-hidden": "true" }, mark);
  if (low < 0) {
    const zero = h("span", { class: "zero" });
    zero.style.left = `${(-100 * low) / span}%`;
    track.append(zero);
  }
  return track;
}

/** The scale that all of these values share; zero is always on it. */
export function scaleOf(values) {
  return [Math.min(0, ...values), Math.max(0, ...values)];
}

export const $ = (id) => document.getElementById(id);

/** Lists are rebuilt at every step. The focus stays with the element of the same name, or moves to its neighbour. */
export function keepFocus(render) {
  const before = document.activeElement;
  const name = before?.dataset?.focus;
  const section = before?.closest?.("section");
  const line = before?.closest?.("li");
  const list = line?.parentElement;
  const at = line ? [...list.children].indexOf(line) : -1;
  render();
  if (!name || before.isConnected) return;
  const all = (root) => [...root.querySelectorAll("[data-focus]")];
  const same = all(document).find((one) => one.dataset.focus === name);
  if (same) return same.focus();
  const kind = `${name.split(":")[0]}:`;
  const lines = list?.isConnected ? [...list.children] : [...(section?.querySelectorAll("li.item") ?? [])];
  const next = lines[Math.min(at, lines.length - 1)];
  const alike = next && all(next).find((one) => one.dataset.focus.startsWith(kind));
  (alike ?? section)?.focus({ preventScroll: !alike }); // a section takes it silently: no keyboard opens on a phone
}
