const SIDE = 344, LEFT = 36, TOP = 10, BANDS = 10;
const scale = SIDE / (2 * data.reach), cell = SIDE / data.cells;
const px = (v) => LEFT + (v + data.reach) * scale, py = (v) => TOP + (data.reach - v) * scale;
let view = 0, frame = 0;

const svg = draw(plot, "svg", { class: "od", viewBox: "0 0 390 404" });
draw(draw(svg, "clipPath", { id: "square" }), "rect", { x: LEFT, y: TOP, width: SIDE, height: SIDE });
const map = draw(svg, "g", { "clip-path": "url(#square)" });
const marks = draw(svg, "g", {});
for (const tick of [-1, 0, 1]) {
  draw(svg, "text", { class: "middle soft small", x: px(tick), y: TOP + SIDE + 17 }, String(tick).replace("-", "−"));
  draw(svg, "text", { class: "end soft small", x: LEFT - 6, y: py(tick) + 4 }, String(tick).replace("-", "−"));
}
const names = [
  draw(svg, "text", { class: "middle strong", x: LEFT + SIDE / 2, y: TOP + SIDE + 40 }),
  draw(svg, "text", { class: "middle strong", x: 12, y: TOP + SIDE / 4 }),
];
const detail = document.createElement("p");
detail.className = "detail";
detail.setAttribute("aria-live", "polite");
plot.after(detail);

/* Cells up to one band, row by row, as one path of runs: bands are laid over each other, which leaves no seams. */
function cells(rows, band) {
  let d = "";
  rows.forEach((row, y) => {
    for (let x = 0; x < row.length; x += 1) {
      if (Number(row[x]) > band) continue;
      const from = x;
      while (Number(row[x + 1]) <= band) x += 1;
      d += `M${(LEFT + from * cell).toFixed(2)} ${(TOP + (rows.length - 1 - y) * cell).toFixed(2)}h${((x - from + 1) * cell).toFixed(2)}v${(cell + 0.05).toFixed(2)}H${(LEFT + from * cell).toFixed(2)}z`;
    }
  });
  return d;
}

function show() {
  const { axes, frames } = data.views[view], shown = frames[frame];
  const line = (points) => path(points.map(([x, y]) => [px(x), py(y)]));
  map.replaceChildren();
  marks.replaceChildren();
  detail.textContent = "";
  for (let band = 0; band < BANDS; band += 1) {
    draw(map, "path", { class: "band", opacity: 0.11, d: cells(shown.rows, band) });
  }
  shown.valleys.forEach((points) => draw(map, "path", { class: "valley", d: line(points) }));
  shown.ways.forEach((points) => {
    draw(map, "path", { class: "way", d: line(points) });
    draw(map, "circle", { class: "from", r: 3.5, cx: px(points[0][0]), cy: py(points[0][1]) });
  });
  shown.marks.forEach((mark) => {
    const node = draw(marks, "circle", { class: `mark ${mark.kind}`, r: 7, cx: px(mark.at[0]), cy: py(mark.at[1]), tabindex: 0, role: "img", "aria-label": mark.text });
    const tell = () => { detail.textContent = mark.text; };
    node.addEventListener("pointerenter", tell);
    node.addEventListener("pointerdown", tell);
    node.addEventListener("focus", tell);
  });
  axes.forEach((name, n) => { names[n].textContent = name; });
  document.getElementById("text").textContent = `λ = ${data.lambdas[frame]}. ${shown.text}`;
  svg.setAttribute("aria-label", shown.text);
  pressView(view);
  pressFrame(frame);
}

const pressView = choices("Which net", data.views.map((v) => v.name), (n) => { view = n; show(); });
const pressFrame = choices("How much dropout", data.lambdas.map((v) => `λ = ${v}`), (n) => { frame = n; show(); });
player(1100, () => { frame = 0; show(); }, () => { frame += 1; show(); return frame < data.lambdas.length - 1; });
plot.addEventListener("keydown", (event) => {
  const to = { ArrowLeft: frame - 1, ArrowRight: frame + 1 }[event.key];
  if (to === undefined || to < 0 || to >= data.lambdas.length) return;
  event.preventDefault();
  stop();
  frame = to;
  show();
});
plot.setAttribute("aria-label", "A map of the loss over two weights. Left and right arrow keys change λ.");
show();
