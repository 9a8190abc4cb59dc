// The search field: a combobox that is driven by arrows, Enter and Escape, or by the pointer.

import { $, count, h, share } from "./dom.js";
import { get, latest } from "./api.js";
import { keyOf } from "./state.js";

const WAIT = 140; // milliseconds after the last key
const SHOWN = 12;

/** `model()` is the name of the model, `has(id)` whether an item is chosen, `pick(item)` chooses one, `failed(error)` shows
 *  an error. Returns a function that repeats a request without an answer. */
export function search({ model, has, pick, failed, say }) {
  const [field, box, list, note] = ["query", "hits-box", "hits", "hits-note"].map($);
  const begin = latest();
  let found = [];
  let at = -1;
  let exact = true; // whether the titles found have all words
  let timer = 0;
  let lost = false; // whether the last question got no answer

  function close() {
    clearTimeout(timer);
    begin();
    box.hidden = true;
    found = [];
    mark(-1);
    field.setAttribute("aria-expanded", "false");
  }

  function mark(next) {
    at = next;
    [...list.children].forEach((option, n) => option.setAttribute("aria-selected", String(n === at)));
    if (at < 0 || !list.children[at]) {
      field.removeAttribute("aria-activedescendant");
      return;
    }
    field.setAttribute("aria-activedescendant", list.children[at].id);
    list.children[at].scrollIntoView({ block: "nearest" });
  }

  function choose(item) {
    field.value = "";
    close();
    pick(item);
    field.focus();
  }

  function show(reply, query) {
    found = reply.items;
    list.replaceChildren(
      ...found.map((item, n) =>
        h("li", {
          id: `hit-${n}`, role: "option", "aria-selected": "false", "data-id": keyOf(item.id),
          onclick: () => choose(item),
        },
        h("span", { class: "name" }, item.title),
        h("span", { class: "soft" }, has(item.id) ? "in your history" : item.new ? "new" : typeof item.users === "number" ? `${share(item.users)} of users` : `popularity ${count(item.popularity)}`)),
      ),
    );
    const rest = reply.total - found.length;
    exact = reply.exact;
    box.classList.toggle("near", !exact);
    note.textContent = !found.length ? `No title is like “${query}”.`
      : !exact ? `No title has all the words of “${query}”. The nearest:`
      : rest > 0 ? `${count(rest)} more; keep typing to narrow it down.` : "";
    note.hidden = !note.textContent;
    list.hidden = !found.length;
    box.hidden = false;
    field.setAttribute("aria-expanded", String(found.length > 0));
    mark(-1);
    say(found.length && exact ? `${count(reply.total)} titles found` : note.textContent);
  }

  async function ask() {
    const query = field.value.trim();
    lost = false;
    if (!query) return close();
    try {
      show(await get("items", { q: query.slice(0, 200), limit: SHOWN, model: model() }, begin()), query);
    } catch (error) {
      if (error.name === "AbortError") return;
      close();
      lost = true;
      failed(error);
    }
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    if (field.value.trim()) timer = setTimeout(ask, WAIT);
    else close();
  });
  field.addEventListener("focus", () => { if (field.value.trim()) ask(); });
  field.addEventListener("blur", close);
  box.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (box.hidden) field.value = "";
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!found.length) return;
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark(at < 0 && step < 0 ? found.length - 1 : (at + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (at < 0 && !exact) mark(found.length ? 0 : -1); // a guess is shown before it is taken
      else if (found.length) choose(found[Math.max(at, 0)]);
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
    }
  });
  return () => { if (lost && document.activeElement === field) ask(); };
}
