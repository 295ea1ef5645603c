// Passes lines between `server.js` and the process.

/**
 * The function that a worker runs. The worker gets it as text, because tests may be bundled into one file, so that a
 * worker could not load another one. The function can't refer to anything outside of itself.
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
  // A write to a process that has ended fails. The events above report that.
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
