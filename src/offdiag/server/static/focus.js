// Lists are made anew at every step. The focus stays with the thing of the same name, or goes to its neighbour.

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
