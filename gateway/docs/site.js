"use strict";
/* Searches the index that lies beside it. Nothing is asked of anybody: it works from a folder, too. */

const MOST = 30;
const AROUND = 60;
const field = document.getElementById("words");
const list = document.getElementById("found");

/* Every word must stand somewhere in a section; in its heading it counts ten times. */
function score([, , title, heading, text], words) {
  let sum = 0;
  for (const word of words) {
    const times = text.toLowerCase().split(word).length - 1;
    const head = `${title} ${heading}`.toLowerCase().includes(word);
    if (!times && !head) return 0;
    sum += (head ? 10 : 0) + Math.min(times, 5);
  }
  return sum;
}

function around(text, word) {
  const at = Math.max(text.toLowerCase().indexOf(word), 0);
  const from = Math.max(at - AROUND, 0);
  return `${from ? "…" : ""}${text.slice(from, at + 2 * AROUND)}${at + 2 * AROUND < text.length ? "…" : ""}`;
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? INDEX.map(row => [score(row, words), row]).filter(([sum]) => sum) : [];
  found.sort(([one], [other]) => other - one);
  list.hidden = !words.length;
  list.querySelector("p").textContent = found.length > MOST ? `${MOST} of ${found.length} places` : found.length === 1 ? "1 place" : `${found.length} places`;
  list.querySelector("ol").replaceChildren(...found.slice(0, MOST).map(([, [file, anchor, title, heading, text]]) => {
    const [item, link, words_] = [document.createElement("li"), document.createElement("a"), document.createElement("p")];
    link.href = anchor ? `${file}#${anchor}` : file;
    link.textContent = heading === title ? title : `${title}: ${heading}`;
    words_.textContent = around(text, words[0]);
    item.append(link, words_);
    return item;
  }));
}

field.addEventListener("input", search);
/* A found place may be on this very page. */
list.addEventListener("click", event => { if (event.target.closest("a")) list.hidden = true; });
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Escape" && document.activeElement === field) { field.value = ""; search(); }
});
