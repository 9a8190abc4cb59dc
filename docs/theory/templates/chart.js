const { x: xs, y: ys, views } = data;
const ends = [xs.ticks[0], xs.values[xs.values.length - 1]].map((v, n) => (n ? Math.max(v, xs.ticks.at(-1)) : Math.min(v, xs.values[0])));
const px = (v) => FRAME.left + (v - ends[0]) / (ends[1] - ends[0]) * (FRAME.right - FRAME.left);
const py = (v) => FRAME.bottom - v / 1.04 * (FRAME.bottom - FRAME.top);
const colour = (n) => (n + 1) % 6;
let view = data.first || 0, at = data.from, single = -1;

const svg = draw(plot, "svg", { class: "od", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": data.label });
for (const tick of ys.ticks) {
  draw(svg, "line", { class: "grid", x1: FRAME.left, x2: FRAME.right, y1: py(tick), y2: py(tick) });
  draw(svg, "text", { class: "end soft small", x: FRAME.left - 6, y: py(tick) + 4 }, tick);
}
for (const tick of xs.ticks) draw(svg, "text", { class: "middle soft small", x: px(tick), y: FRAME.bottom + 17 }, tick);
draw(svg, "line", { class: "axis", x1: FRAME.left, x2: FRAME.right, y1: FRAME.bottom, y2: FRAME.bottom });
draw(svg, "text", { class: "soft small", x: 0, y: 14 }, ys.name);
draw(svg, "text", { class: "middle soft small", x: (FRAME.left + FRAME.right) / 2, y: HEIGHT - 6 }, xs.name);
const lines = draw(svg, "g", {});
const cursor = draw(svg, "line", { class: "cursor", y1: FRAME.top, y2: FRAME.bottom });
const dots = draw(svg, "g", {});

const body = document.getElementById("values");
const rows = views[0].lines.map((line, n) => {
  const row = body.insertRow();
  const name = button(row.insertCell(), "", () => { single = single === n ? -1 : n; show(); });
  const swatch = document.createElement("span");
  swatch.className = "swatch";
  swatch.style.background = `var(--c${colour(n)})`;
  name.append(swatch, line.name);
  const value = row.insertCell();
  value.className = "number";
  return { name, value, note: row.insertCell() };
});

function show() {
  const shown = views[view], points = (line) => line.values.map((v, k) => [px(xs.values[k]), py(v)]);
  lines.replaceChildren();
  dots.replaceChildren();
  const faded = (n) => (single >= 0 && single !== n ? " faded" : "");
  if (data.ghosts && view) views[0].lines.forEach((line, n) => draw(lines, "path", { class: `line ghost s${colour(n)}` + faded(n), d: path(points(line)) }));
  shown.lines.forEach((line, n) => {
    draw(lines, "path", { class: `line s${colour(n)}` + faded(n), d: path(points(line)) });
    draw(dots, "circle", { class: `halo f${colour(n)}` + faded(n), r: 4.5, cx: px(xs.values[at]), cy: py(line.values[at]) });
    rows[n].value.textContent = line.values[at].toFixed(3);
    rows[n].note.textContent = line.note;
    rows[n].name.setAttribute("aria-pressed", String(single === n));
  });
  cursor.setAttribute("x1", px(xs.values[at]));
  cursor.setAttribute("x2", px(xs.values[at]));
  document.getElementById("at").textContent = `at ${xs.short} = ${Number(xs.values[at].toFixed(2))}`;
  document.getElementById("text").textContent = shown.text;
  press(view);
}

function move(to) {
  at = Math.max(0, Math.min(xs.values.length - 1, to));
  show();
}

function point(event) {
  const box = svg.getBoundingClientRect(), where = (event.clientX - box.left) / box.width * WIDTH;
  let best = 0;
  xs.values.forEach((v, k) => { if (Math.abs(px(v) - where) < Math.abs(px(xs.values[best]) - where)) best = k; });
  stop();
  move(best);
}

const press = choices("What is shown", views.map((v) => v.name), (n) => { view = n; show(); });
if (data.plays === "cursor") player(60, () => move(0), () => { move(at + 1); return at < xs.values.length - 1; });
else player(1200, () => { view = 0; show(); }, () => { view += 1; show(); return view < views.length - 1; });
svg.addEventListener("pointermove", (event) => { if (!timer && (event.pointerType !== "touch" || event.buttons)) point(event); });
svg.addEventListener("pointerdown", point);
plot.addEventListener("keydown", (event) => {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: xs.values.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  stop();
  move(to);
});
plot.setAttribute("aria-label", `${data.label}. Arrow keys move the cursor.`);
show();
