// Light or dark as chosen here before; without a choice, as the system says. Loaded first, so that nothing flashes.
(function () {
  "use strict";
  const order = ["auto", "light", "dark"];
  const root = document.documentElement;
  let now = "auto";
  try { now = localStorage.getItem("offdiag-theme") || "auto"; } catch { /* storage may be forbidden */ }
  if (!order.includes(now)) now = "auto";
  const apply = () => {
    if (now === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", now);
    const name = document.getElementById("theme-name");
    if (name) name.textContent = now;
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      now = order[(order.indexOf(now) + 1) % order.length];
      try { localStorage.setItem("offdiag-theme", now); } catch { /* it still holds until the page is left */ }
      apply();
    });
  });
})();
