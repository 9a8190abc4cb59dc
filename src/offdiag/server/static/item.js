// What a catalogue says about an item: picture, category, price and a link to it. Only safe addresses are used.

import { h } from "./dom.js";

const prices = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** The address if it is complete and of one of these kinds, else null: "javascript:" and the like never get onto the page. */
function address(text, kinds) {
  if (typeof text !== "string") return null;
  try {
    const url = new URL(text);
    return kinds.includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** A picture of fixed size; an empty place of the same size if it cannot be loaded. Null if the list has no pictures. */
export function picture(item, pictured) {
  if (!pictured) return null;
  const src = address(item.image, ["https:"]);
  const none = () => h("span", { class: "picture", "aria-hidden": "true" });
  if (!src) return none();
  const image = h("img", { class: "picture", alt: `Picture of ${item.title}`, width: 48, height: 48, loading: "lazy", decoding: "async", referrerpolicy: "no-referrer" });
  image.addEventListener("error", () => image.replaceWith(none()));
  image.src = src;
  return image;
}

export const hasPictures = (items) => items.some((item) => address(item.image, ["https:"]));

/** A mark for what was added after the fit; null for all others. */
export const newMark = (item) => (item.new ? h("span", { class: "new", title: "Added after the model was fitted; nobody has it yet" }, "new") : null);

/** Why a new item is recommended: the items that it is like. */
export function becauseLike(parts, most) {
  const titles = parts.slice(0, most).map((part) => part.title);
  const last = titles.length > 1 ? ` and ${titles.pop()}` : "";
  return `because it is like ${titles.join(", ")}${last}`;
}

/** Category, price and link in one line; null if there are none. */
export function facts(item) {
  const href = address(item.link, ["https:", "http:"]);
  const price = typeof item.price === "number" ? prices.format(item.price).replace(/\.00$/, "") : item.price;
  const texts = [item.category, price].filter(Boolean);
  if (!texts.length && !href) return null;
  return h("p", { class: "facts" },
    texts.map((text) => h("span", {}, String(text))),
    href ? h("a", { href, target: "_blank", rel: "noopener noreferrer", "aria-label": `Open ${item.title} in a new tab` }, h("span", { class: "open-word" }, "open "), "↗") : null);
}
