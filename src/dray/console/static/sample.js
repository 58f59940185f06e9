// The sample's application: a file by choice or drop, two bars that move with the bytes, and the
// received file as it came. The buttons work without this script, too; then the browser saves.

import { asPart, fill, refresh } from "./console.js";

const SMALL_BYTES_MAX = 4_000_000;
const PLAIN_BYTES_MAX = 4 * 1024 * 1024;
const IN_DOUBT = 504;
const UNKNOWN = "The console does not answer, so nobody knows here whether the message has left its queue."
  + " The file has come whole: save it, then look at the queue.";
const $ = (id) => document.getElementById(id);
const sender = $("sender"), file = $("file"), drop = $("drop"), size = $("fragment-size");
let chosen = null;
const shown = new Map();

// ------------------------------------------------------------------------------- the file

function say(kind, wrong, element) {
  drop.classList.remove("valid", "invalid", "over");
  if (kind) drop.classList.add(kind);
  file.setAttribute("aria-invalid", String(kind === "invalid"));
  $("file-wrong").textContent = wrong;
  $("file-said").replaceChildren(...(element ? [element] : []));
}

async function readable(given) {
  try {
    await given.slice(0, 1).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

async function choose(given) {
  chosen = null;
  picture($("sender-picture"), null, "");
  bar($("send-bar"), 0, "");
  $("sent").replaceChildren();
  say("", "", null);
  if (!given) return;
  if (!await readable(given)) {
    return say("invalid", "The browser cannot read this file; choose another one.", null);
  }
  chosen = given;
  const label = document.createElement("span");
  const small = given.size <= SMALL_BYTES_MAX;
  label.className = `file-size ${small ? "small" : "large"}`;
  label.textContent = `${given.size.toLocaleString("en")} bytes: `
    + (small ? "small, up to 4,000,000" : "large, above 4,000,000");
  const name = document.createElement("span");
  name.textContent = `${given.name} `;
  const both = document.createElement("span");
  both.append(name, label);
  say("valid", "", both);
  await picture($("sender-picture"), given, "The picture to send");
}

file.addEventListener("change", () => choose(file.files[0]));
// Chromium sends "cancel" instead of "change" for the same path, and the file may have changed.
file.addEventListener("cancel", () => { if (file.files[0]) choose(file.files[0]); });
for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
}
drop.addEventListener("dragleave", (event) => {
  if (!drop.contains(event.relatedTarget)) drop.classList.remove("over");
});
// Beside the field a dropped file would replace the page.
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => event.preventDefault());
}
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  const items = [...event.dataTransfer.items];
  const files = [...event.dataTransfer.files];
  chosen = null;
  file.value = "";
  if (items.some((each) => each.webkitGetAsEntry?.()?.isDirectory)) {
    return say("invalid", "This is a folder; drop one file.", null);
  }
  if (files.length > 1) return say("invalid", "These are several files; drop one.", null);
  if (!files.length) return say("invalid", "This is no file; drop a file.", null);
  choose(files[0]);
});

// ---------------------------------------------------------------------- bars and pictures

function bar(element, value, kind) {
  element.className = kind;
  if (value === null) element.removeAttribute("value");
  else element.value = value;
}

async function picture(figure, blob, words) {
  const old = shown.get(figure);
  if (old) URL.revokeObjectURL(old);
  shown.delete(figure);
  figure.hidden = true;
  figure.replaceChildren();
  if (!blob || !/^image\/(png|jpeg|gif|bmp|webp)$/.test(blob.type)) return;
  const image = new Image();
  const address = URL.createObjectURL(blob);
  shown.set(figure, address);
  image.src = address;
  image.alt = words;
  try {
    await image.decode();
  } catch {
    return;
  }
  const caption = document.createElement("figcaption");
  caption.textContent = `${words}, ${image.naturalWidth} x ${image.naturalHeight}`;
  figure.replaceChildren(image, caption);
  figure.hidden = false;
}

// --------------------------------------------------------------------------------- sending

function put(address, body, moved) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", address);
    request.setRequestHeader("Dray-Fragment", "1");
    request.upload.onprogress = (event) => moved(event.loaded, event.total);
    request.onload = () => resolve(request);
    request.onerror = () => reject(new Error("the console does not answer; send it again"));
    request.send(body);
  });
}

function sizeIsWrong(sentence) {
  $("fragment-wrong").textContent = sentence;
  size.setAttribute("aria-invalid", String(Boolean(sentence)));
  if (sentence) size.focus();
}
size.addEventListener("input", () => sizeIsWrong(""));

sender.addEventListener("submit", async (event) => {
  event.preventDefault();
  const plain = event.submitter?.id === "send-plain";
  if (!chosen) return say("invalid", "Choose a file first.", null);
  const written = size.value.trim();
  if (!plain && !(/^[0-9]+$/.test(written) && Number(written) <= Number(size.dataset.largest))) {
    return sizeIsWrong(size.dataset.wrong);
  }
  sizeIsWrong("");
  const sending = chosen, buttons = [...sender.querySelectorAll("button")];
  const query = new URLSearchParams({
    label: sending.name, fragment_size: size.value, size: String(sending.size),
  });
  const progress = $("send-bar"), sent = $("sent");
  // The console refuses a plain message by its size, so the bytes stay here.
  const tooLarge = plain && sending.size > PLAIN_BYTES_MAX;
  bar(progress, 0, "");
  sent.replaceChildren();
  buttons.forEach((each) => { each.disabled = true; });
  try {
    if (!await readable(sending)) {
      throw new Error("it has changed since you chose it; choose it again");
    }
    const answer = await put(
      `/sample/sent/${plain ? "plain" : "large"}?${query}`,
      tooLarge ? new Blob([]) : sending,
      // It is full when the queue manager has committed.
      (done, all) => bar(progress, all ? 0.99 * done / all : 0, ""),
    );
    const good = answer.status === 200;
    bar(progress, 1, good ? "good" : "bad");
    fill(sent, answer.responseText);
    const wrong = sent.querySelector("[data-wrong-size]");
    if (wrong) sizeIsWrong(wrong.dataset.wrongSize);
  } catch (error) {
    bar(progress, 1, "bad");
    alarm(sent, `The file was not sent: ${error.message}.`);
  }
  buttons.forEach((each) => { each.disabled = false; });
  refresh($("queue"));
});

function alarm(element, sentence) {
  const notice = document.createElement("div");
  notice.className = "notice bad";
  notice.setAttribute("role", "alert");
  notice.textContent = sentence;
  delete element.dataset.filled;
  element.replaceChildren(notice);
}

// ------------------------------------------------------------------------------- receiving

async function body(held, moved) {
  const answer = await fetch(`/sample/received/${held.id}`);
  if (!answer.ok) throw new Error("the console does not give the file");
  const all = Number(held.size), pieces = [];
  let done = 0;
  const reader = answer.body.getReader();
  for (;;) {
    const { value, done: ended } = await reader.read();
    if (ended) break;
    // A Blob may be on the browser's disk, an array of numbers may not.
    pieces.push(new Blob([value]));
    done += value.length;
    moved(done, all);
  }
  if (done !== all) throw new Error("the file broke off");
  return new Blob(pieces, { type: held.picture || "application/octet-stream" });
}

const post = (address, form) =>
  fetch(address, { method: "POST", headers: asPart, body: new URLSearchParams(form) })
    .catch(() => { throw new Error("the console does not answer"); });

function offer(element, blob, name) {
  const old = shown.get(element);
  if (old) URL.revokeObjectURL(old);
  const link = document.createElement("a"), actions = document.createElement("div");
  shown.set(element, URL.createObjectURL(blob));
  link.href = shown.get(element);
  link.download = name;
  link.className = "button";
  link.textContent = `Save “${name}”`;
  actions.className = "actions";
  actions.append(link);
  element.querySelector(".notice").append(actions);
}

async function take(held, received, progress) {
  let blob;
  try {
    blob = await body(held, (done, all) => bar(progress, all ? done / all : 1, ""));
  } catch {
    const answer = await post(`/sample/received/${held.id}/give-back`, {});
    fill(received, await answer.text());
    return false;
  }
  // A message that has left its queue is in this blob only, also when no answer says so.
  let kept;
  try {
    kept = await post(`/sample/received/${held.id}/keep`, {});
    fill(received, await kept.text());
  } catch {
    alarm(received, UNKNOWN);
  }
  if (!kept?.ok) {
    if (!kept || kept.status === IN_DOUBT) offer(received, blob, held.name);
    return false;
  }
  offer(received, blob, held.name);
  await picture($("receiver-picture"), blob, "The picture that was received");
  return true;
}

for (const form of [$("complete"), $("lossy")]) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = [...document.querySelectorAll("#complete button, #lossy button")];
    const received = $("received"), progress = $("receive-bar");
    received.replaceChildren();
    delete received.dataset.filled;
    await picture($("receiver-picture"), null, "");
    bar(progress, null, "");
    buttons.forEach((each) => { each.disabled = true; });
    let good = false;
    try {
      const answer = await post("/sample/receive", new FormData(form));
      fill(received, await answer.text());
      const held = received.querySelector("#held");
      if (answer.ok && held) good = await take({ ...held.dataset }, received, progress);
    } catch (error) {
      alarm(received, `Nothing was received: ${error.message}. Receive again.`);
    }
    bar(progress, 1, good ? "good" : "bad");
    buttons.forEach((each) => { each.disabled = false; });
    refresh($("queue"));
  });
}
