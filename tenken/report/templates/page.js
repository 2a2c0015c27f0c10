"use strict";
// Sorting: a heading of a sortable table becomes a button; everything reads the same without it.
const collator = new Intl.Collator(undefined, {numeric: true});
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => {
        const {dataset, textContent} = row.cells[column];
        const plain = textContent.replace(/[\s\u202f]|%$/g, "").replace("\u2212", "-");
        return dataset.v ?? (isFinite(plain) ? plain : textContent);
      };
      const compare = (a, b) => {
        const x = key(a), y = key(b);
        return x !== "" && y !== "" && isFinite(x) && isFinite(y) ? x - y : collator.compare(x, y);
      };
      body.append(...[...body.rows].sort((a, b) => up ? compare(a, b) : compare(b, a)));
    });
  });
}
// The filter: every word must stand in the row; what is hidden is counted.
for (const form of document.querySelectorAll("form.filter")) {
  const rows = [...form.parentElement.querySelector("tbody").rows];
  let words;
  const apply = () => {
    words ??= rows.map(row => row.textContent.toLowerCase());
    const wanted = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = form.elements.verdict.value;
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = (verdict && !row.classList.contains(verdict)) || !wanted.every(word => words[i].includes(word));
      shown += !row.hidden;
    });
    form.querySelector("output").textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", event => event.preventDefault());
}
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target) target.scrollIntoView({block: "center"});
};
addEventListener("hashchange", reveal);
reveal();
// A link into a folded part opens it; paper gets what a reader would unfold.
const folds = document.querySelectorAll("details[data-print]");
addEventListener("beforeprint", () => folds.forEach(f => { f.dataset.was = f.open ? "1" : ""; f.open = true; }));
addEventListener("afterprint", () => folds.forEach(f => { f.open = f.dataset.was === "1"; }));
