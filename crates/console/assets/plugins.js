// Stands between plugins and the host. A plugin is in a frame of another origin and can do nothing but send messages; this is the only
// script that hears them. It believes nothing that they say: the host decides what is done, and this passes on what it answers.

const protocol = "ui-plugin/1";
const perSecond = 50; // More is no work of a person; whoever sends so much is stopped.
const waiting = 16;

const frames = new Map();

function say(place, text) {
  place.querySelector(".said").textContent = text;
}

function stop(state, why) {
  frames.delete(state.window);
  state.frame.remove();
  say(state.place, `The plugin was stopped: ${why}. Load the page again to start it anew.`);
}

function failed(id, message) {
  return { openwop: protocol, type: "response", id, ok: false, error: { code: "internal", message } };
}

// Its origin is opaque, so nobody can be named; the window is the frame's own, and the page lets it show plugins alone.
function send(state, message) {
  state.window.postMessage(message, "*");
}

async function ask(state, text, id) {
  const { place } = state;
  const form = new URLSearchParams({ pack: place.dataset.pack, plugin: place.dataset.plugin, message: text });
  form.set(place.dataset.csrfField, place.dataset.csrf);
  if (place.dataset.artifact) form.set("artifact", place.dataset.artifact);
  try {
    const answer = await fetch(place.dataset.rpc, { method: "POST", body: form, redirect: "error", credentials: "same-origin" });
    // Nothing comes back for what is no message.
    if (answer.status === 400) return;
    if (!answer.ok) return send(state, failed(id, "the host did not take the message"));
    const { response, effect } = await answer.json();
    if (!frames.has(state.window)) return;
    send(state, response);
    if (effect?.toast) say(place, `${place.dataset.plugin}: ${effect.toast}`);
    if (effect?.navigate) go(effect.navigate);
  } catch {
    send(state, failed(id, "the host cannot be reached, or you are signed out"));
  }
}

// Only within the console, and only while somebody is doing something: a page does not run away by itself.
function go(path) {
  const to = new URL(path, location.href);
  if (to.origin === location.origin && navigator.userActivation?.isActive !== false) location.assign(to);
}

function hear(event) {
  const state = frames.get(event.source);
  if (!state || event.origin !== "null") return;
  const now = performance.now();
  if (now - state.since > 1000) { state.since = now; state.count = 0; }
  state.count += 1;
  if (state.count > perSecond) return stop(state, "it sent too many messages");
  const { data } = event;
  if (typeof data !== "object" || data === null || data.openwop !== protocol) return;
  const { id } = data;
  if (!Number.isSafeInteger(id) || id <= state.last) return;
  state.last = id;
  let text;
  try { text = JSON.stringify(data); } catch { return; }
  if (typeof text !== "string") return;
  const limit = Number(state.place.dataset.limit);
  if (text.length > limit || new TextEncoder().encode(text).length > limit) {
    return send(state, failed(id, `a message has at most ${limit} bytes`));
  }
  if (state.open >= waiting) return send(state, failed(id, "too many messages wait for their answers"));
  state.open += 1;
  // One after another, in the order in which they came.
  state.queue = state.queue.then(() => ask(state, text, id)).finally(() => { state.open -= 1; });
}

function opened(state) {
  const data = { plugin: state.place.dataset.plugin };
  if (state.place.dataset.artifact) data.artifactId = state.place.dataset.artifact;
  send(state, { openwop: protocol, type: "event", event: "host.opened", data });
}

addEventListener("message", hear);
for (const place of document.querySelectorAll(".plugin[data-plugin]")) {
  const frame = place.querySelector("iframe");
  const state = { place, frame, window: frame.contentWindow, last: -1, since: 0, count: 0, open: 0, queue: Promise.resolve() };
  frames.set(frame.contentWindow, state);
  frame.addEventListener("load", () => opened(state));
  // It may have loaded before this script did.
  opened(state);
}
