// This script replaces the panels of a page with new panels from the server every two seconds. It
// keeps the reader's focus, opened details, selection, typed text and scrolled tables. If the URL
// has no domain, it selects the last one. Without the script, pages work but do not refresh.
"use strict";

const interval = 2000;
const patience = 10000; // for an answer of the server
const live = document.getElementById("live");
const pause = document.getElementById("pause");
const panels = () => document.querySelectorAll("[data-panel]");

// keyOf returns a name by which the same element is found in the next panel.
function keyOf(element) {
  return element.id || element.getAttribute("href") || element.getAttribute("aria-label") ||
    (element.tagName === "SUMMARY" && element.parentElement.id && "summary of " + element.parentElement.id);
}

// isBusy reports whether new content would disturb what the reader is doing.
function isBusy(panel) {
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && selection.containsNode(panel, true)) return true;
  for (const field of panel.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (field === document.activeElement || ("defaultValue" in field && field.value !== field.defaultValue)) return true;
  }
  return false;
}

// replace replaces the content of panel with the content of next.
function replace(panel, next) {
  const focused = panel.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  for (const details of panel.querySelectorAll("details[id]")) {
    const same = next.querySelector("#" + CSS.escape(details.id));
    if (same) same.open = details.open;
  }
  const scrolled = new Map();
  for (const area of panel.querySelectorAll(".scroll")) scrolled.set(keyOf(area), area.scrollLeft);
  panel.replaceChildren(...next.childNodes);
  for (const area of panel.querySelectorAll(".scroll")) area.scrollLeft = scrolled.get(keyOf(area)) || 0;
  if (!focused) return;
  for (const element of panel.querySelectorAll("a, button, summary, [tabindex]")) {
    if (keyOf(element) === focused) {
      element.focus({ preventScroll: true });
      return;
    }
  }
}

// say shows a message. Screen readers announce it once.
function say(text) {
  if (live.textContent !== text) live.textContent = text;
}

const shown = new Map(); // last content of each panel, as text

async function refresh() {
  const url = new URL(location.href);
  url.searchParams.set("part", "panels");
  url.searchParams.delete("done");
  url.hash = "";
  const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(patience) });
  if (answer.status === 401) return say("You are signed out. Load the page again to sign in.");
  if (!answer.ok) return say("The server answers " + answer.status + "; what is shown is old.");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const panel of panels()) {
    const next = fresh.getElementById(panel.id);
    if (!next || shown.get(panel.id) === next.innerHTML || isBusy(panel)) continue;
    shown.set(panel.id, next.innerHTML);
    replace(panel, next);
  }
  say("");
}

async function run() {
  const paused = pause.getAttribute("aria-pressed") === "true";
  if (!paused && document.visibilityState === "visible") {
    await refresh().catch(() => say("The server does not answer; what is shown is old."));
  }
  setTimeout(run, interval);
}

const asked = new URLSearchParams(location.search).get("domain");
for (const field of document.querySelectorAll("select[name=domain], input[name=domain]:not([type=hidden])")) {
  const last = sessionStorage.getItem("domain");
  if (!asked && last && (!field.options || [...field.options].some(o => o.value === last))) field.value = last;
  field.addEventListener("change", () => sessionStorage.setItem("domain", field.value));
}
if (asked) sessionStorage.setItem("domain", asked);

if (pause && panels().length > 0 && !document.querySelector("[role=alert]")) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(paused));
  });
  setTimeout(run, interval);
}
