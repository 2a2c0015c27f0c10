"use strict";
// Sorting: a heading of a sortable table becomes a button; everything reads the same without it.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  const collator = new Intl.Collator(undefined, {numeric: true});
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const x = key(a), y = key(b);
        return x !== "" && y !== "" && isFinite(x) && isFinite(y) ? x - y : collator.compare(x, y);
      };
      body.append(...[...body.rows].sort((a, b) => up ? compare(a, b) : compare(b, a)));
    });
  });
}
// A link into a folded part opens it; paper gets what a reader would unfold.
const folds = document.querySelectorAll("details[data-print]");
addEventListener("beforeprint", () => folds.forEach(f => { f.dataset.was = f.open ? "1" : ""; f.open = true; }));
addEventListener("afterprint", () => folds.forEach(f => { f.open = f.dataset.was === "1"; }));
