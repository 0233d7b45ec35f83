"use strict";
// The pages work without it: it filters the fleet's cards, and lets the age of what was read go on.

const filter = document.getElementById("filter");
const none = document.getElementById("none");

function show() {
  const text = filter.value.trim().toLowerCase();
  let shown = 0;
  for (const host of document.querySelectorAll(".host")) {
    let here = 0;
    for (const card of host.querySelectorAll(".card")) {
      const has = `${host.firstElementChild.textContent} ${card.textContent}`.toLowerCase().includes(text);
      card.hidden = !has;
      here += has ? 1 : 0;
    }
    host.hidden = here === 0;
    shown += here;
  }
  none.hidden = shown > 0;
}

if (filter) {
  filter.closest("[hidden]").hidden = false; // without this script it would do nothing
  filter.addEventListener("input", show);
  show(); // a browser may have kept the text of before
}

const age = document.getElementById("age");
if (age) {
  const since = Date.now() - 1000 * Number(age.dataset.seconds);
  setInterval(() => {
    const seconds = Math.round((Date.now() - since) / 1000);
    age.textContent = seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
  }, 1000);
}
