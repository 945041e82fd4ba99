// Keeps live regions and relative times up to date. Pages work without this script.

const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function words(moment) {
  const seconds = Math.round((Date.now() - moment) / 1000);
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const [length, name] = units.find(([length]) => size >= length);
  const text = `${Math.floor(size / length)} ${name}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function times(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = Date.parse(time.dateTime);
    if (!Number.isNaN(moment)) time.textContent = words(moment);
  }
}

// Node states arrive as a short list, so that the drawing need not be sent again.
function states(root) {
  for (const list of root.querySelectorAll("[data-states]")) {
    for (const pair of list.dataset.states.split(" ")) {
      const [id, state] = pair.split("=");
      const node = id && document.getElementById(id);
      if (node) node.setAttribute("class", `node ${state}`);
    }
  }
}

function isEdited(region) {
  return [...region.querySelectorAll("input:not([type=hidden]), textarea, select")].some((field) =>
    field === document.activeElement ||
    (field.matches("select")
      ? [...field.options].some((option) => option.selected !== option.defaultSelected && !(field.selectedIndex === 0))
      : field.matches("[type=checkbox], [type=radio]")
        ? field.checked !== field.defaultChecked
        : field.value !== field.defaultValue));
}

function swap(markup) {
  const parsed = document.createElement("template");
  parsed.innerHTML = markup;
  for (const next of [...parsed.content.children]) {
    const now = document.getElementById(next.id);
    // Do not replace a form that the user is editing.
    if (!now || isEdited(now)) continue;
    const open = [...now.querySelectorAll("details[open][id]")].map((details) => details.id);
    const focus = now.contains(document.activeElement) ? document.activeElement.id : "";
    now.replaceWith(next);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (focus) document.getElementById(focus)?.focus();
    times(next);
    states(next);
  }
}

function follow() {
  const light = document.getElementById("connection");
  const say = (word) => { if (light) { light.textContent = word; light.dataset.state = word; } };
  // The browser reconnects by itself and sends the id of the last message.
  const source = new EventSource(location.href);
  source.addEventListener("open", () => say("live"));
  source.addEventListener("regions", (message) => { say("live"); swap(message.data); });
  source.addEventListener("error", () => {
    say("reconnecting");
    // The server refused the stream: signed out, or too many live views. Reloading shows which.
    if (source.readyState === EventSource.CLOSED) say("offline");
  });
  addEventListener("pagehide", () => source.close());
}

// Pan and zoom of large drawings.
function drawings() {
  for (const frame of document.querySelectorAll(".graph")) {
    const svg = frame.querySelector("svg");
    if (!svg) continue;
    let scale = 1;
    const width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
    const zoom = (by) => {
      scale = Math.min(4, Math.max(0.05, scale * by));
      svg.setAttribute("width", Math.round(width * scale));
      svg.setAttribute("height", Math.round(height * scale));
    };
    const button = (text, label, act) => {
      const made = document.createElement("button");
      made.type = "button"; made.textContent = text; made.className = "quiet";
      made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
      return made;
    };
    const bar = document.createElement("div");
    bar.className = "zoom";
    bar.append(
      button("−", "Zoom out", () => zoom(0.8)),
      button("+", "Zoom in", () => zoom(1.25)),
      button("Fit", "Fit the drawing", () => { scale = Math.min(1, frame.clientWidth / width); zoom(1); }),
    );
    frame.before(bar);
    if (width > frame.clientWidth) { scale = Math.max(0.6, frame.clientWidth / width); zoom(1); }
    // Scroll to the first active node, or else to the first node.
    const first = svg.querySelector(".node.busy, .node.wait") ?? svg.querySelector(".node");
    if (first) {
      const box = first.getBBox();
      frame.scrollTop = (box.y + box.height / 2) * scale - frame.clientHeight / 2;
      if (first.matches(".busy, .wait")) frame.scrollLeft = (box.x + box.width / 2) * scale - frame.clientWidth / 2;
    }
    let from = null;
    frame.addEventListener("pointerdown", (event) => {
      if (event.button === 0) from = [event.clientX + frame.scrollLeft, event.clientY + frame.scrollTop];
    });
    addEventListener("pointermove", (event) => {
      if (from) { frame.scrollLeft = from[0] - event.clientX; frame.scrollTop = from[1] - event.clientY; }
    });
    addEventListener("pointerup", () => { from = null; });
    frame.addEventListener("wheel", (event) => {
      if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY < 0 ? 1.1 : 0.9); }
    }, { passive: false });
  }
}

times(document);
setInterval(() => times(document), 10000);
drawings();
if (document.body.hasAttribute("data-live")) follow();
