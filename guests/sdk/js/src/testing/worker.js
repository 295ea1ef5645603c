// Passes lines between `server.js` and the process.

/**
 * Runs in a worker, which gets it as text: tests may be bundled into one file, where a worker would not find another
 * one. It can't refer to anything outside of it.
 */
export function work({ program, port, answered }, spawn) {
  const child = spawn(program, ["test-server"], { stdio: ["pipe", "pipe", "inherit"] });
  let failure;
  let output = "";

  function answer(message) {
    port.postMessage(message);
    Atomics.store(answered, 0, 1);
    Atomics.notify(answered, 0);
  }

  function fail(text) {
    failure ??= text;
    answer({ failure });
  }

  child.on("error", ({ message }) => {
    fail(`tests need the program flyball: put it on the PATH, or set the variable FLYBALL to its path: ${message}`);
  });
  child.on("close", () => fail("flyball test-server has ended"));
  // A write to a process that has ended: the events above tell it.
  child.stdin.on("error", () => {});
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
    if (!output.endsWith("\n")) return;
    answer({ reply: output });
    output = "";
  });
  port.on("message", (line) => {
    if (failure === undefined) child.stdin.write(`${line}\n`);
    else answer({ failure });
  });
}
