"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const plot = document.getElementById("plot"), controls = document.getElementById("controls");
const WIDTH = 400, HEIGHT = 300, FRAME = { left: 36, right: 392, top: 26, bottom: 258 };

/* An SVG element with these attributes, inside a parent. */
function draw(parent, tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function button(parent, label, act) {
  const node = document.createElement("button");
  node.type = "button";
  node.textContent = label;
  node.addEventListener("click", act);
  parent.append(node);
  return node;
}

/* A row of buttons of which one is pressed. */
function choices(what, labels, act) {
  const row = document.createElement("div");
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", what);
  controls.append(row);
  const nodes = labels.map((label, n) => button(row, label, () => { stop(); act(n); }));
  return (chosen) => nodes.forEach((node, n) => node.setAttribute("aria-pressed", String(n === chosen)));
}

/* A button that calls advance every few milliseconds until it returns false or is pressed again. */
let timer = 0, playing = null;
function player(pause, begin, advance) {
  playing = button(controls.lastChild, "▶ play", () => {
    if (timer) return stop();
    begin();
    playing.textContent = "❚❚ pause";
    timer = setInterval(() => { if (!advance()) stop(); }, pause);
  });
  playing.className = "play";
}
function stop() {
  clearInterval(timer);
  timer = 0;
  if (playing) playing.textContent = "▶ play";
}

const path = (points) => "M" + points.map(([x, y]) => x.toFixed(1) + " " + y.toFixed(1)).join("L");
