// Signs a user in: by the link of `flyball dashboard`, or by a token of the cluster.

import { command, h, put, say } from "./dom.js";
import { ask, message, setKey } from "./live.js";

const MODE = document.querySelector("meta[name=sign-in]").content;

/** Uses up the token of the page's link, if it has one. Returns a sentence if that fails. */
export async function openLink() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return null;
  // Not even the browser's history keeps it.
  history.replaceState(null, "", "#/");
  const problem = await begin({
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: found[1] }),
  });
  return problem;
}

async function begin(options) {
  let response;
  try {
    response = await ask("api/session", options);
  } catch {
    return "the host can't be reached";
  }
  if (!response.ok) return message(response);
  setKey((await response.json()).key);
  return null;
}

/** Ends the session. */
export async function signOut() {
  await ask("api/session", { method: "DELETE" }).catch(() => {});
  setKey("");
}

/** Shows how to sign in. `done` is called after that. */
export function show(main, reason, done) {
  const status = h("p.note", { role: "alert" }, reason);
  if (MODE === "link") {
    put(
      main,
      h(
        "section.sign-in",
        h("h1", "Open the dashboard by its link"),
        status,
        h("p", "Each link is valid once. This prints another and opens it:"),
        command("flyball dashboard"),
      ),
    );
    return;
  }
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const submit = h("button.button", { type: "submit" }, "Sign in");
  const form = h("form", h("label", { for: "token" }, "Bearer token"), input, submit);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const token = input.value.trim();
    // A header has no other characters.
    const problem = /^[\x21-\x7e]+$/.test(token)
      ? await begin({ method: "POST", headers: { Authorization: `Bearer ${token}` } })
      : "this is not a token";
    submit.disabled = false;
    if (problem) {
      say(status, problem);
      input.select();
    } else {
      done();
    }
  });
  put(
    main,
    h(
      "section.sign-in",
      h("h1", "Sign in"),
      h(
        "p",
        "The dashboard needs the right to get ",
        h("code", "/dashboard/*"),
        ". A service account with it has tokens:",
      ),
      command("kubectl create token NAME"),
      form,
      status,
    ),
  );
  input.focus();
}
