// The events of the host. `fetch` reads them, since an EventSource can't send the session's key.

const KEY = "flyball-key";
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;
// A stream has something to say every 15 seconds.
const SILENCE = 40_000;

let memory = null;

/** The key of this browser's session; empty without one. */
export function key() {
  try {
    return localStorage.getItem(KEY) ?? memory ?? "";
  } catch {
    return memory ?? "";
  }
}

export function setKey(value) {
  memory = value;
  try {
    if (value) localStorage.setItem(KEY, value);
    else localStorage.removeItem(KEY);
  } catch {
    // Without storage, the session lasts as long as the page.
  }
}

/** Sends a request of the session. */
export function ask(path, options = {}) {
  const headers = { ...options.headers, "X-Flyball-Key": key() };
  return fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store", redirect: "error" });
}

/** The message of a refusal: the dashboard's own, or the host's. */
export async function message(response) {
  try {
    return (await response.json()).message ?? `the host answered ${response.status}`;
  } catch {
    return `the host answered ${response.status}`;
  }
}

/**
 * Follows a view: calls `on[event](data)` for each event, `on.state(state, text)` when the connection changes, and
 * `on.refused(text)` once the user must sign in. Connects again until `stop()`. A page that nobody sees has no stream.
 */
export class Live {
  constructor(query, on) {
    this.query = query;
    this.on = on;
    this.pause = FIRST_PAUSE;
    this.hasEnded = false;
    this.changeSight = () => (document.hidden ? this.#close() : this.#open());
    document.addEventListener("visibilitychange", this.changeSight);
    if (!document.hidden) this.#open();
  }

  stop() {
    this.hasEnded = true;
    document.removeEventListener("visibilitychange", this.changeSight);
    this.#close();
  }

  #close() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  async #open() {
    this.#close();
    if (this.hasEnded) return;
    const abort = new AbortController();
    this.abort = abort;
    this.on.state("connecting", "connecting");
    try {
      const response = await ask(`api/stream?${this.query}`, { signal: abort.signal });
      if (response.status === 401 || response.status === 403) {
        const text = await message(response);
        this.stop();
        this.on.refused(text);
        return;
      }
      if (!response.ok) throw new Error(await message(response));
      this.on.state("live", "live");
      await this.#read(response.body.getReader(), abort);
      throw new Error("the host closed the connection");
    } catch (error) {
      if (this.abort !== abort) return;
      this.abort = null;
      this.on.state("lost", error instanceof TypeError ? "the host can't be reached" : error.message);
      this.timer = setTimeout(() => this.#open(), this.pause);
      this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    }
  }

  async #read(reader, abort) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const silent = setTimeout(() => reader.cancel().catch(() => {}), SILENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done || this.abort !== abort) return;
      text += decoder.decode(value, { stream: true });
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) this.#take(event);
    }
  }

  #take(event) {
    let name = "message";
    let data = null;
    for (const line of event.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (data === null) return;
    this.pause = FIRST_PAUSE;
    this.on[name]?.(JSON.parse(data));
  }
}
