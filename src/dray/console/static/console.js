// Keeps parts of a page fresh. An element with an id and
//
//   data-refresh="/address/of/the/part"    data-every="2"
//
// is filled again with the HTML that the server gives there, as long as the page is looked at.
// Focus, chosen boxes, written fields and open details stay as they are. Without this script pages
// work by reload.

const SILENT = "The console does not answer.";
const LATE = "No answer has come for 10 s.";
const PATIENCE_MS = 10_000;
let failures = 0;

document.documentElement.classList.add("has-script");

export const asPart = { "Dray-Fragment": "1" };

export function fill(element, html) {
  if (element.dataset.filled === html) return;
  const kept = remember(element);
  element.innerHTML = html;
  element.dataset.filled = html;
  restore(element, kept);
}

function remember(element) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  return {
    focus: active && nameOf(active),
    chosen: [...element.querySelectorAll("input:checked")].map((box) => box.name + "=" + box.value),
    written: [...element.querySelectorAll("input[type=text][id]")]
      .filter((field) => field.value !== field.defaultValue).map((field) => [field.id, field.value]),
    open: [...element.querySelectorAll("details[open]")].map((each) => each.id),
    scrolled: [...element.querySelectorAll(".scroll")].map((each) => each.scrollLeft),
  };
}

// By what something is found again that can have the focus.
function nameOf(each) {
  return each.id || each.dataset.key || each.getAttribute("href")
    || `${each.closest("details")?.id} ${each.tagName} ${each.getAttribute("aria-label")}`;
}

function restore(element, kept) {
  for (const box of element.querySelectorAll("input[type=checkbox], input[type=radio]")) {
    if (kept.chosen.includes(box.name + "=" + box.value)) box.checked = true;
  }
  for (const [id, value] of kept.written) {
    const field = element.querySelector("#" + id);
    if (field) field.value = value;
  }
  for (const each of element.querySelectorAll("details")) {
    if (each.id && kept.open.includes(each.id)) each.open = true;
  }
  element.querySelectorAll(".scroll").forEach((each, at) => { each.scrollLeft = kept.scrolled[at] ?? 0; });
  if (!kept.focus) return;
  const again = [...element.querySelectorAll("a, button, input, select, textarea, summary, [tabindex]")]
    .find((each) => nameOf(each) === kept.focus);
  if (again) again.focus({ preventScroll: true });
}

// Nothing is filled again while somebody writes into a field of it, or presses a button of it: a
// press that ends on another button than it began on is no click.
function isInUse(element) {
  const active = document.activeElement;
  const writes = "input:not([type=checkbox], [type=radio]), select, textarea";
  return element.querySelector(":active") || (element.contains(active) && active.matches(writes));
}

export async function refresh(element) {
  if (document.hidden || isInUse(element)) return;
  let why = "";
  const late = setTimeout(() => say(LATE), PATIENCE_MS);
  try {
    const answer = await fetch(element.dataset.refresh, { headers: asPart, cache: "no-store" });
    if (answer.status === 401) return location.reload();
    const html = await answer.text();
    if (answer.status >= 500) why = firstSentence(html);
    else if (!isInUse(element)) fill(element, html);
  } catch {
    why = SILENT;
  }
  clearTimeout(late);
  failures = why ? failures + 1 : 0;
  say(why);
}

function say(why) {
  const said = document.getElementById("lost-why");
  if (said.textContent !== why) said.textContent = why;
  document.getElementById("lost").hidden = !why;
}

// The console answers, and says why it has nothing to show: the queue manager is away.
function firstSentence(html) {
  const part = document.createElement("template");
  part.innerHTML = html;
  return part.content.querySelector("p")?.textContent.trim() || SILENT;
}

export function keepFresh(element) {
  const every = 1000 * (Number(element.dataset.every) || 2);
  const again = async () => {
    if (!element.isConnected) return;
    await refresh(element);
    setTimeout(again, every * Math.min(1 + failures, 8));
  };
  setTimeout(again, every);
}

for (const element of document.querySelectorAll("[data-refresh]")) keepFresh(element);

// The second click of a double click would end the request of the first, and show its own answer.
const DOUBLE_CLICK_MS = 1000;
let justSent = false;

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  if (justSent) return event.preventDefault();
  justSent = true;
  setTimeout(() => { justSent = false; }, DOUBLE_CLICK_MS);
});
