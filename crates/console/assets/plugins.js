// Forwards messages between plugins and the host. A plugin runs in a frame on another origin and can only send messages, and only this
// script receives them. It does not trust their content: it passes them to the host and returns the host's responses.

const protocol = "ui-plugin/1";
const perSecond = 50; // No person works this fast; a plugin that sends more is stopped.
const waiting = 16;

const frames = new Map();

function say(place, text) {
  place.querySelector(".said").textContent = text;
}

function stop(state, why) {
  frames.delete(state.window);
  state.frame.remove();
  say(state.place, `The plugin was stopped: ${why}. Reload the page to restart it.`);
}

function failed(id, message) {
  return { openwop: protocol, type: "response", id, ok: false, error: { code: "internal", message } };
}

// The frame's origin is opaque, so no target origin can be given. Only plugin documents can load in this window.
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
    // Invalid messages get no response.
    if (answer.status === 400) return;
    if (!answer.ok) return send(state, failed(id, "the host rejected the message"));
    const { response, effect } = await answer.json();
    if (!frames.has(state.window)) return;
    send(state, response);
    if (effect?.toast) say(place, `${place.dataset.plugin}: ${effect.toast}`);
    if (effect?.navigate) go(effect.navigate);
  } catch {
    send(state, failed(id, "the host is unreachable, or you are signed out"));
  }
}

// Navigate only within the console, and only after a user action.
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
    return send(state, failed(id, `the message is too large; the limit is ${limit} bytes`));
  }
  if (state.open >= waiting) return send(state, failed(id, "too many pending messages"));
  state.open += 1;
  // One at a time, in order of arrival.
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
