// Chooses what the page shows by the part of the address behind `#`, and keeps it current.

import { h, put, say } from "./dom.js";
import { duration } from "./format.js";
import { Live } from "./live.js";
import { ObjectView } from "./object.js";
import { PluginView } from "./plugin.js";
import { PluginsView } from "./plugins.js";
import { openLink, show as showSignIn, signOut } from "./signin.js";

const byId = (id) => document.getElementById(id);
const main = byId("main");
const query = byId("query");
const banner = byId("banner");

let live = null;
let view = null;
let lost = null;

function route() {
  const [, kind, ...rest] = location.hash.split("/");
  const name = decode(rest.join("/"));
  if (kind === "plugin" && name)
    return { view: new PluginView(name), query: `plugin=${encodeURIComponent(name)}`, title: name };
  if (kind === "object" && name)
    return { view: new ObjectView(name), query: `object=${encodeURIComponent(name)}`, title: name };
  return { view: new PluginsView(), query: "view=plugins", title: "Plugins" };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function leave() {
  live?.stop();
  view?.leave?.();
  live = null;
  view = null;
}

function enter() {
  leave();
  warn(null);
  const next = route();
  view = next.view;
  document.title = `${next.title} · Flyball`;
  put(main, view.element);
  window.scrollTo(0, 0);
  view.filter?.(query.value);
  byId("sign-out").hidden = false;
  live = new Live(next.query, {
    state: setLink,
    refused: refuse,
    host: (host) =>
      say(
        byId("host"),
        `Flyball ${host.version} · Kubernetes ${host.kubernetes} · up ${duration(Date.now() - Date.parse(host.since))}`,
      ),
    problem: (problem) => warn(problem.message),
    solved: () => warn(null),
    plugins: (data) => view.plugins?.(data),
    trends: (data) => view.trends?.(data),
    plugin: (data) => view.update?.(data),
    object: (data) => view.update?.(data),
    log: (data) => view.log?.(data),
  });
}

function refuse(reason) {
  leave();
  warn(null);
  setLink("lost", "signed out");
  byId("sign-out").hidden = true;
  document.title = "Sign in · Flyball";
  showSignIn(main, reason, enter);
}

/** Shows the state of the connection. A short loss is no news. */
function setLink(state, text) {
  clearTimeout(lost);
  const set = () => {
    const link = byId("link");
    link.dataset.state = state;
    link.title = text;
    say(link.lastElementChild, state === "lost" ? "not connected" : text);
  };
  if (state === "live") set();
  else lost = setTimeout(set, 700);
}

function warn(text) {
  banner.hidden = !text;
  if (text) say(banner, text);
}

/** Goes to what the search field names. */
function search(text) {
  const opened = view?.open?.(text);
  if (opened || !text) return;
  location.hash = `#/object/${encodeURIComponent(text)}`;
}

function onKey(event) {
  const target = event.target;
  const types = target.matches("input, textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !byId("help").open) {
    if (target === query && query.value) {
      query.value = "";
      view?.filter?.("");
    } else if (types) {
      target.blur();
    } else if (location.hash.length > 2) {
      location.hash = "#/";
    }
  } else if (types) {
    if (target === query && event.key === "ArrowDown") {
      event.preventDefault();
      view?.focus?.();
    }
  } else if (event.key === "/") {
    event.preventDefault();
    query.focus();
    query.select();
  } else if (event.key === "?") {
    byId("help").showModal();
  }
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search(query.value.trim());
});
query.addEventListener("input", () => view?.filter?.(query.value));
byId("help-open").addEventListener("click", () => byId("help").showModal());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
byId("sign-out").addEventListener("click", async () => {
  leave();
  await signOut();
  refuse("You are signed out.");
});
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", async () => {
  if (location.hash.startsWith("#token=")) await start();
  else enter();
});

async function start() {
  put(main, h("p.empty", "Loading…"));
  const problem = await openLink();
  if (problem) refuse(problem);
  else enter();
}

start();
