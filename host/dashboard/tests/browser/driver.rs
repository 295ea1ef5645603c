//! Drives a headless Chromium over its debugging protocol, through pipes: JSON messages that end with a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flyball_controlplane::process;
use serde_json::{Value, json};

/// Only a fault takes this long.
const DEADLINE: Duration = Duration::from_secs(120);
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with a profile of its own.
pub(crate) struct Browser {
    child: Child,
    sends: ChildStdin,
    receives: BufReader<ChildStdout>,
    last: u64,
    /// What pages logged or threw.
    console: Vec<String>,
    _profile: tempfile::TempDir,
}

/// A page of the browser.
#[derive(Clone)]
pub(crate) struct Page {
    session: String,
}

/// The browser that is installed, if one is.
pub(crate) fn installed() -> Option<&'static str> {
    let runs = |program: &&str| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|done| done.status.success())
    };
    PROGRAMS.into_iter().find(|program| runs(program))
}

impl Browser {
    /// Starts a browser. `arguments` are added to its own.
    pub(crate) fn start(program: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        let folder = format!("--user-data-dir={}", profile.path().display());
        // The pipes are file descriptors 3 and 4.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                script,
                program,
                "--headless=new",
                "--remote-debugging-pipe",
            ])
            // The sandbox needs rights that containers seldom have; the pages are this test's own.
            .args([
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .arg(folder)
            .args(arguments)
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = process::spawn(command).context("can't start a shell")?;
        let sends = child.stdin.take().context("a pipe")?;
        let receives = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self {
            child,
            sends,
            receives,
            last: 0,
            console: Vec::new(),
            _profile: profile,
        })
    }

    /// Opens a page that shares no cookies and no storage with others.
    pub(crate) fn open(&mut self, url: &str) -> anyhow::Result<Page> {
        let context = self.call(None, "Target.createBrowserContext", json!({}))?;
        let created =
            json!({"url": "about:blank", "browserContextId": context["browserContextId"]});
        let target = self.call(None, "Target.createTarget", created)?;
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", attached)?;
        let session = attached["sessionId"].as_str().context("a session")?;
        let page = Page {
            session: session.to_owned(),
        };
        for domain in ["Page", "Runtime", "Log"] {
            self.on(&page, &format!("{domain}.enable"), json!({}))?;
        }
        self.go(&page, url)?;
        Ok(page)
    }

    pub(crate) fn go(&mut self, page: &Page, url: &str) -> anyhow::Result<()> {
        self.on(page, "Page.navigate", json!({"url": url}))
            .map(drop)
    }

    /// Sets the size of the window in pixels, and the colour scheme of the user's system.
    pub(crate) fn look(
        &mut self,
        page: &Page,
        width: u32,
        height: u32,
        scheme: &str,
    ) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.on(page, "Emulation.setDeviceMetricsOverride", size)?;
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.on(page, "Emulation.setEmulatedMedia", scheme)
            .map(drop)
    }

    /// Returns the value of an expression of JavaScript.
    pub(crate) fn value(&mut self, page: &Page, expression: &str) -> anyhow::Result<Value> {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut done = self.on(page, "Runtime.evaluate", asked)?;
        if let Some(thrown) = done.get("exceptionDetails") {
            bail!("{expression} threw {thrown}");
        }
        Ok(done["result"]["value"].take())
    }

    pub(crate) fn text(&mut self, page: &Page, selector: &str) -> anyhow::Result<String> {
        let expression = format!("document.querySelector({selector:?})?.innerText ?? ''");
        let text = self.value(page, &expression)?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, page: &Page, expression: &str) -> anyhow::Result<()> {
        self.until_some(page, &format!("({expression}) === true || null"))
            .map(drop)
    }

    /// Waits until an expression has a value other than null, and returns the value.
    fn until_some(&mut self, page: &Page, expression: &str) -> anyhow::Result<Value> {
        let begun = Instant::now();
        loop {
            // While a page loads, its elements may be missing.
            if let Ok(value) = self.value(page, expression)
                && !value.is_null()
            {
                return Ok(value);
            }
            if begun.elapsed() > DEADLINE {
                let shown = self.text(page, "body")?;
                bail!(
                    "{expression} was never true; the page shows {shown:?}, its console {:?}",
                    self.console
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until an element with this text is there.
    pub(crate) fn until_shown(
        &mut self,
        page: &Page,
        selector: &str,
        text: &str,
    ) -> anyhow::Result<()> {
        let expression = format!(
            "[...document.querySelectorAll({selector:?})].some((one) => one.innerText.includes({text:?}))"
        );
        self.until(page, &expression)
    }

    /// Clicks on the middle of the first element, as a mouse does, once the element is at rest and nothing is in front of it.
    pub(crate) fn click(&mut self, page: &Page, selector: &str) -> anyhow::Result<()> {
        let find = format!(
            "(async () => {{ const one = document.querySelector({selector:?}); if (!one) return null; \
             one.scrollIntoView({{block: 'center'}}); \
             const middle = () => {{ const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }}; \
             const frame = () => new Promise((done) => requestAnimationFrame(done)); \
             await frame(); await frame(); const before = middle(); await frame(); await frame(); const at = middle(); \
             const isAtRest = before[0] === at[0] && before[1] === at[1]; \
             return isAtRest && one.contains(document.elementFromPoint(...at)) ? at : null; }})()"
        );
        let at = self.until_some(page, &find)?;
        for (kind, buttons) in [("mousePressed", 1), ("mouseReleased", 0)] {
            let event = json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "buttons": buttons, "clickCount": 1});
            self.on(page, "Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Presses a key: a letter, or a name such as `Enter`.
    pub(crate) fn press(&mut self, page: &Page, key: &str) -> anyhow::Result<()> {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Tab" => 9,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            _ if key.chars().count() == 1 => key,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code, "text": if kind == "keyDown" { text } else { "" }});
            self.on(page, "Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    pub(crate) fn type_text(&mut self, page: &Page, text: &str) -> anyhow::Result<()> {
        for letter in text.chars() {
            self.press(page, &letter.to_string())?;
        }
        Ok(())
    }

    /// Saves a picture of what is seen.
    pub(crate) fn picture(&mut self, page: &Page, path: &Path) -> anyhow::Result<()> {
        let picture = self.on(page, "Page.captureScreenshot", json!({"format": "png"}))?;
        let data = picture["data"].as_str().context("a picture")?;
        std::fs::write(path, STANDARD.decode(data)?)
            .with_context(|| format!("can't write {}", path.display()))
    }

    /// Returns what pages have logged or thrown since the last call.
    pub(crate) fn console(&mut self) -> Vec<String> {
        std::mem::take(&mut self.console)
    }

    fn on(&mut self, page: &Page, method: &str, parameters: Value) -> anyhow::Result<Value> {
        self.call(Some(&page.session), method, parameters)
    }

    fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> anyhow::Result<Value> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.sends.write_all(format!("{message}\0").as_bytes())?;
        loop {
            let mut received = Vec::new();
            self.receives.read_until(0, &mut received)?;
            if received.pop().is_none() {
                bail!("the browser ended during {method}");
            }
            let mut received: Value = serde_json::from_slice(&received)?;
            if received["id"] == self.last {
                if let Some(error) = received.get("error") {
                    bail!("{method} failed: {error}");
                }
                return Ok(received["result"].take());
            }
            let method = received["method"].as_str().unwrap_or_default();
            if [
                "Runtime.consoleAPICalled",
                "Runtime.exceptionThrown",
                "Log.entryAdded",
            ]
            .contains(&method)
            {
                self.console.push(received["params"].to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
