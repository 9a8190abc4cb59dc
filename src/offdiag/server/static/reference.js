// "Try it" of the reference: sends what is in the form and shows the answer as it comes.

import { authorization, get, useToken } from "./api.js";

const IDS = ["history", "histories", "item", "other"]; // fields whose example should name real items

/** The examples name items of no catalogue; put in those of this one. */
async function useRealIds() {
  const [found, card] = await Promise.all([get("items", { limit: 3 }), get("model")]);
  const ids = found.items.map((item) => item.id);
  if (!ids.length) return;
  const real = { history: ids.slice(0, 2), histories: [ids.slice(0, 2), ids.slice(2)], item: ids.at(-1), other: ids[0] };
  for (const area of document.querySelectorAll("textarea")) {
    const body = JSON.parse(area.value);
    for (const name of IDS) if (name in body) body[name] = real[name];
    if ("models" in body) body.models = [card.models[0], card.models[1] ?? card.models[0]];
    area.value = JSON.stringify(body);
  }
}

async function send(event) {
  event.preventDefault();
  const form = event.target;
  const [state, out] = [form.querySelector(".state"), form.querySelector("pre")];
  const body = form.querySelector("textarea")?.value;
  const given = [...form.querySelectorAll("input")].filter((input) => input.value !== "").map((input) => [input.name, input.value]);
  const url = form.dataset.path.slice(1) + (given.length ? `?${new URLSearchParams(given)}` : "");
  const begun = performance.now();
  try {
    const options = body === undefined ? {} : { method: "POST", body };
    const response = await fetch(url, { ...options, headers: { ...authorization(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) } });
    const text = await response.text();
    state.textContent = `${response.status} ${response.statusText}, ${Math.round(performance.now() - begun)} ms`;
    state.classList.toggle("bad", !response.ok);
    document.getElementById("token-form").hidden &&= response.status !== 401;
    try { out.textContent = JSON.stringify(JSON.parse(text), null, 1); } catch { out.textContent = text; }
  } catch {
    state.textContent = "The service does not answer.";
    state.classList.add("bad");
    out.textContent = "";
  }
  out.hidden = !out.textContent;
}

for (const form of document.querySelectorAll("form[data-path]")) form.addEventListener("submit", send);
document.getElementById("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(document.getElementById("token").value);
  document.getElementById("token").value = "";
  document.getElementById("token-state").textContent = "It is sent with every request from now on.";
  useRealIds().catch(() => {});
});
useRealIds().catch((error) => { if (error.status === 401) document.getElementById("token-form").hidden = false; });
