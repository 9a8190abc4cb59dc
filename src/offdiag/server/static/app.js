// The page: what is chosen, what it requests, and where the answers are shown.

import { $, count, h, keepFocus } from "./dom.js";
import { get, latest, post, useToken } from "./api.js";
import { cards } from "./card.js";
import { showExamples } from "./examples.js";
import { mergedList, oneList, popularSides, twoLists } from "./lists.js";
import { showPicked } from "./picked.js";
import { search } from "./search.js";
import { fillPanel } from "./why.js";
import { FIRST, format, keyOf, parse } from "./state.js";

const MOST = 100; // items in a list
const REASONS = 3;
const RETRY = 3000; // milliseconds between looks for a service that was gone
const titles = new Map();
const withoutReasons = new Set(); // models that give no reasons
const beginList = latest();
const beginCard = latest();
const beginExamples = latest();
const narrow = matchMedia("(max-width: 620px)"); // as in app.css
let unknown = new Set(); // ids of the address that this model does not know
let state = parse(location.hash);
let models = [];
let timed = false; // whether a model on the page counts by time, of which the page knows nothing
let notice = "";
let shown = null; // the answer on the page, and the model it compares with
let retry = 0;
let working = 0;

const left = (ids, id) => ids.filter((one) => keyOf(one) !== keyOf(id));
const modelName = () => state.model ?? models[0];
const otherName = () => (state.other && state.other !== modelName() ? state.other : null);
const timesOf = (ids) => (timed ? { times: ids.map(() => 0) } : {}); // all at once, in the order of the list
const say = (text) => { $("status").textContent = text; };
const titleOf = (id) => (titles.get(keyOf(id)) ?? String(id)) + (unknown.has(keyOf(id)) ? " (not in this catalogue)" : "");
const pickedAgain = () => showPicked(state, titleOf, act);

const act = {
  has: (id) => state.history.some((one) => keyOf(one) === keyOf(id)),
  add(item) {
    learn([item]);
    if (act.has(item.id)) return say(`${item.title} is in your history already`);
    change({ history: [...state.history, item.id], block: left(state.block, item.id) }, `${item.title} added`);
  },
  remove: (id) => change({ history: left(state.history, id) }, `${titleOf(id)} removed`),
  block(item) {
    learn([item]);
    change({ block: [...left(state.block, item.id), item.id] }, `${item.title} blocked`);
  },
  unblock: (id) => change({ block: left(state.block, id) }, `${titleOf(id)} may be recommended again`),
  toggle(item, model, button, panel) {
    const open = panel.hidden;
    for (const other of document.querySelectorAll(".panel")) other.hidden = true;
    for (const other of document.querySelectorAll(".title")) other.setAttribute("aria-expanded", "false");
    if (open) openPanel(item, model, button, panel);
    state.open = open ? item.id : null;
    remember(false);
  },
};

function learn(items) {
  for (const item of items) titles.set(keyOf(item.id), item.title);
}

/** A step of the user: it is stored in the address, and everything is derived from that. */
function change(step, text) {
  state = { ...state, ...step, open: null };
  notice = "";
  remember(true);
  if (text) say(text);
  pickedAgain();
  if ("model" in step || "other" in step) start();
  else showLists();
}

function remember(newStep) {
  const hash = format(state);
  const url = hash ? `#${hash}` : location.pathname + location.search;
  if (newStep) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}

async function start() {
  await during(async () => {
    await showModels();
    pickedAgain();
    await showLists();
    await showExamples(modelName(), takeExample, beginExamples());
  });
}

function takeExample(items) {
  learn(items);
  change({ history: items.map((item) => item.id), block: [] }, "An example is your history now");
  $("lists").focus({ preventScroll: true });
}

async function showModels() {
  const signal = beginCard();
  const first = await get("model", {}, signal);
  models = first.models;
  for (const name of ["model", "other"]) {
    if (state[name] === null || models.includes(state[name])) continue;
    notice = `The model “${state[name]}” of this link is not served here.`;
    state[name] = null;
  }
  const shown = [modelName(), otherName()].filter(Boolean);
  const abouts = await Promise.all(shown.map((model) => (model === first.name ? first : get("model", { model }, signal))));
  timed = abouts.some((about) => about.settings.history_half_life);
  choices($("model"), models, modelName());
  choices($("other"), ["", ...left(models, modelName())], otherName() ?? "");
  $("model-field").hidden = $("other-field").hidden = models.length < 2;
  $("card-title").textContent = abouts.length > 1 ? "The models" : "The model";
  $("card-body").replaceChildren(...cards(abouts));
}

function choices(select, names, chosen) {
  select.replaceChildren(...names.map((name) => h("option", { value: name }, name || "nothing")));
  select.value = chosen;
}

async function showLists() {
  const signal = beginList();
  $("results").setAttribute("aria-busy", "true");
  await during(async () => {
    const body = { history: state.history, ...timesOf(state.history), k: state.k, block: state.block };
    const other = otherName();
    const reply = other
      ? await post("compare", { ...body, models: [modelName(), other] }, signal)
      : await recommended({ ...body, model: state.model }, signal);
    learn(other ? reply.lists.flat() : reply.items);
    unknown = unknownIn(reply, other);
    await findTitles(signal);
    pickedAgain();
    calm();
    searchAgain();
    shown = { reply, other };
    renderAgain();
  });
}

/** Ids that no model on the page knows. */
function unknownIn(reply, other) {
  if (!other) return new Set(reply.unknown.map(keyOf));
  const [first, second] = reply.unknown.map((ids) => new Set(ids.map(keyOf)));
  return new Set([...first].filter((key) => second.has(key)));
}

async function recommended(body, signal) {
  if (!withoutReasons.has(modelName())) {
    try {
      return await post("recommend", { ...body, reasons: REASONS }, signal);
    } catch (error) {
      if (error.status !== 409) throw error;
      withoutReasons.add(modelName());
    }
  }
  return post("recommend", body, signal);
}

/** A link names items by id only; one request fetches the titles that are not known yet. */
async function findTitles(signal) {
  const missing = [...state.history, ...state.block].filter((id) => !titles.has(keyOf(id)) && !unknown.has(keyOf(id)));
  if (!missing.length) return;
  learn((await post("recommend", { history: [], k: missing.length, allow: missing, model: state.model }, signal)).items);
}

function renderAgain() {
  if (!shown) return;
  keepFocus(() => render(shown.reply, shown.other));
  reopen();
}

function render(reply, other) {
  const lost = state.history.filter((id) => unknown.has(keyOf(id))).length;
  const n = state.history.length - lost;
  const length = other ? reply.lists[0].length : reply.items.length;
  const popular = other ? reply.fallback.every(Boolean) : reply.fallback === "popular";
  $("lists-title").textContent = other ? "Two models, one history" : popular ? "Popular items" : "Recommended";
  $("lists-note").textContent = [
    notice,
    popular ? `${state.history.length ? "Nothing in your history is known to this model" : "Nothing is chosen yet"}; these are the most popular items.` : `For the ${n === 1 ? "one item" : `${count(n)} items`} in your history.`,
    lost && !popular ? `${lost === 1 ? "One more is" : `${count(lost)} more are`} not in this catalogue and left out.` : "",
    timed && n > 1 && !popular ? "This model counts by time; here all items were chosen at once." : "",
    other ? `${popularSides(reply)} ${count(reply.shared)} of ${count(length)} are in both lists. ${narrow.matches
      ? "Numbers are the ranks in each." : "▲ higher here than there, ▼ lower."}`
      : popular || !length ? "" : withoutReasons.has(modelName()) ? "This model gives no reasons."
        : "Bars show what speaks most for an item or against it; open it to see all.",
  ].filter(Boolean).join(" ");
  const nothing = h("p", { class: "soft" }, "Nothing is left to recommend: everything is in your history or blocked.");
  $("results").replaceChildren(!length ? nothing : other ? (narrow.matches ? mergedList : twoLists)(reply, act) : oneList(reply, act, popular));
  $("more").hidden = length < state.k || state.k >= MOST;
  say(`${$("lists-title").textContent}: ${count(length)} items. ${$("lists-note").textContent}`);
}

async function openPanel(item, model, button, panel) {
  button.setAttribute("aria-expanded", "true");
  panel.hidden = false;
  await during(
    () => fillPanel(panel, item, { history: state.history, ...timesOf(state.history), model, act, learn }),
    (error) => panel.replaceChildren(h("p", { class: "soft" }, error.message)),
  );
}

/** Opens the panel that a link names, or that was open before the list was rebuilt. */
function reopen() {
  if (state.open === null) return;
  const line = [...document.querySelectorAll("li[data-id]")].find((one) => one.dataset.id === keyOf(state.open));
  const button = line?.querySelector(".title");
  if (button?.getAttribute("aria-expanded") === "false") button.click();
}

/** Work that the thin line at the top shows. A failure is shown, a request that was superseded is not. */
async function during(work, also = () => {}) {
  busy(1);
  try {
    await work();
    $("results").setAttribute("aria-busy", "false");
  } catch (error) {
    if (error.name === "AbortError") return;
    also(error);
    failed(error);
  } finally {
    busy(-1);
  }
}

function busy(step) {
  working += step;
  document.body.classList.toggle("working", working > 0);
}

/** Shows what failed, and retries by itself if the service was unreachable. */
function failed(error) {
  $("results").setAttribute("aria-busy", "false");
  if (error.status === 401) {
    $("token-form").hidden = false;
    $("trouble").hidden = true;
    $("token").focus();
    return;
  }
  $("trouble-text").textContent = error.message;
  $("trouble").hidden = false;
  clearTimeout(retry);
  document.body.classList.toggle("away", !error.status);
  if (!error.status) retry = setTimeout(start, RETRY);
}

function calm() {
  $("trouble").hidden = true;
  $("token-form").hidden = true;
  document.body.classList.remove("away");
  clearTimeout(retry);
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    $("share-word").textContent = "Copied";
  } catch {
    $("share-word").textContent = "The address above is the link";
  }
  say($("share-word").textContent);
  $("share").classList.add("done");
  setTimeout(() => { $("share-word").textContent = "Copy link"; $("share").classList.remove("done"); }, 1800);
}

const searchAgain = search({ model: () => state.model, has: act.has, pick: act.add, failed, say });
$("clear").addEventListener("click", () => { change({ history: [] }, "The history is empty"); $("you").focus(); });
$("more").addEventListener("click", () => change({ k: Math.min(state.k + FIRST, MOST) }));
$("share").addEventListener("click", copyLink);
$("again").addEventListener("click", start);
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("lists").focus(); });
$("model").addEventListener("change", () => change({ model: $("model").value }));
$("other").addEventListener("change", () => change({ other: $("other").value || null }));
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken($("token").value);
  $("token").value = "";
  $("token-label").textContent = "That token was not accepted.";
  start();
});
narrow.addEventListener("change", renderAgain);
addEventListener("popstate", () => { state = parse(location.hash); start(); });
start();
