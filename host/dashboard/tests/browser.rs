//! The dashboard in a real browser: clicked through, used by keyboard, at both widths and in both colour schemes, and
//! attacked by pages of other origins.

#[path = "browser/driver.rs"]
mod driver;
mod support;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flyball_dashboard::Warning;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::driver::{Browser, Page};
use crate::support::{MARKUP, PLUGINS, Served, name};

/// Rows that a table has elements for at most, whatever the number of plugins and the height of these windows.
const MOST_ROWS: usize = 80;

/// Runs a test with a browser and a dashboard; records that it is skipped where no browser is installed.
async fn in_browser<T>(
    test: &str,
    arguments: &[&str],
    run: impl FnOnce(&mut Browser, &Served) -> anyhow::Result<T> + Send,
) -> anyhow::Result<()>
where
    T: Send,
{
    let Some(program) = driver::installed() else {
        return flyball_controlplane::skip(test, "no Chromium is installed");
    };
    let served = Served::start().await?;
    // The server goes on in other threads.
    tokio::task::block_in_place(|| {
        let mut browser = Browser::start(program, arguments)?;
        run(&mut browser, &served)?;
        let console = browser.console();
        ensure!(console.is_empty(), "the console has {console:#?}");
        anyhow::Ok(())
    })?;
    served.stop().await
}

/// Opens the dashboard by a new link, and waits for the plugins.
fn open(browser: &mut Browser, served: &Served) -> anyhow::Result<Page> {
    let page = browser.open(&served.server.link())?;
    browser.until_shown(&page, ".row a", &name(0))?;
    Ok(page)
}

fn count(browser: &mut Browser, page: &Page, selector: &str) -> anyhow::Result<usize> {
    let expression = format!("document.querySelectorAll({selector:?}).length");
    let count = browser.value(page, &expression)?;
    Ok(count.as_u64().context("a number")? as usize)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_shows_a_thousand_plugins_live_and_is_valid_once() -> anyhow::Result<()> {
    in_browser(
        "a_link_shows_a_thousand_plugins_live_and_is_valid_once",
        &[],
        |browser, served| {
            let link = served.server.link();
            let page = browser.open(&link)?;
            browser.until_shown(&page, ".row a", &name(2))?;
            let address = browser.value(&page, "location.href + history.length")?;
            assert!(!address.to_string().contains("token"), "{address}");
            let cookies = browser.value(&page, "document.cookie")?;
            assert_eq!(cookies, "", "no code of the page can read the cookie");

            let rows = browser.value(
                &page,
                "document.querySelector('.table').getAttribute('aria-rowcount')",
            )?;
            assert_eq!(rows, (PLUGINS + 1).to_string());
            assert!(count(browser, &page, ".row")? < MOST_ROWS);
            // Those in trouble are first, and say why.
            browser.until_shown(&page, ".row", "Quarantined")?;

            // Values change without a reload.
            browser.value(&page, "window.isSame = true")?;
            served.host.queue(4321);
            browser.until_shown(&page, ".tile", "4,321")?;
            served.host.lose(true);
            browser.until_shown(&page, "#banner", "it has gone")?;
            served.host.lose(false);
            browser.until(&page, "document.querySelector('#banner').hidden")?;
            assert_eq!(browser.value(&page, "window.isSame")?, true);

            // A reload and another tab of the browser need no other link; another browser does.
            browser.value(&page, "location.reload()")?;
            browser.until_shown(&page, ".row a", &name(2))?;
            let other = browser.open(&link)?;
            browser.until_shown(&other, ".sign-in", "opened before")?;
            assert_eq!(*served.warnings.lock(), [Warning::UsedAgain]);
            // The browser notes the refusal in the console by itself.
            let console = browser.console();
            assert!(
                console.iter().all(|line| line.contains("status of 401")),
                "{console:?}"
            );
            Ok(())
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_can_be_clicked_through() -> anyhow::Result<()> {
    in_browser("each_page_can_be_clicked_through", &[], |browser, served| {
        let page = open(browser, served)?;
        browser.look(&page, 1360, 900, "light")?;
        browser.click(&page, ".chip:nth-child(2)")?;
        browser.until(&page, "Number(document.querySelector('.table').getAttribute('aria-rowcount')) < 300")?;
        browser.click(&page, ".chip:nth-child(1)")?;
        browser.click(&page, ".head .rate button")?;
        browser.until(&page, "document.querySelector('.head .rate').getAttribute('aria-sort') === 'descending'")?;
        browser.click(&page, ".head .name button")?;
        browser.until(&page, "document.querySelector('.head .name').getAttribute('aria-sort') === 'ascending'")?;
        browser.click(&page, &format!(".row a[href='#/plugin/{}']", name(0)))?;

        browser.until_shown(&page, "h1", &name(0))?;
        browser.until(&page, "document.querySelectorAll('.chart path.line').length >= 5")?;
        for text in ["cpu-share", "denied", "flyball rollback deployment-controller --to cdcdcdcdcdcd"] {
            browser.until_shown(&page, ".card", text)?;
        }
        // Texts of plugins are texts.
        browser.until_shown(&page, ".failures pre", r"<img src=x onerror=alert(1)>\u202e\u001b[2J")?;
        assert_eq!(count(browser, &page, "main img, main script")?, 0);
        served.host.log("2026-01-01T00:00:01.000Z  INFO \"a new line\"");
        browser.until_shown(&page, ".log li", "a new line")?;
        browser.click(&page, ".card input[type=search]")?;
        browser.type_text(&page, "new line")?;
        browser.until(&page, "[...document.querySelectorAll('.log li')].filter((one) => !one.hidden).length === 1")?;
        // A chart tells the values below the pointer.
        browser.click(&page, ".plot")?;
        browser.until(&page, "document.querySelector('.readout time').innerText !== '' || document.activeElement.matches('.plot')")?;
        served.host.queue(17);
        browser.until_shown(&page, ".card td", "17")?;

        browser.click(&page, ".failures a.object")?;
        browser.until(&page, "document.querySelectorAll('.box').length === 4")?;
        assert_eq!(count(browser, &page, "path.arrow")?, 2);
        browser.click(&page, ".box[data-look=bad]")?;
        browser.until(&page, "document.activeElement.id === 'step-2'")?;
        browser.click(&page, ".step a[href^='#/plugin/']")?;
        browser.until_shown(&page, "h1", "-controller")?;
        browser.click(&page, ".brand")?;
        browser.until_shown(&page, ".row a", &name(2))?;

        browser.click(&page, "#sign-out")?;
        browser.until_shown(&page, ".sign-in", "signed out")?;
        browser.value(&page, "location.reload()")?;
        browser.until_shown(&page, ".sign-in", "not signed in")?;
        let console = browser.console();
        assert!(console.iter().all(|line| line.contains("status of 401")), "{console:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_can_be_used_by_keyboard() -> anyhow::Result<()> {
    in_browser("all_of_it_can_be_used_by_keyboard", &[], |browser, served| {
        let page = open(browser, served)?;
        browser.look(&page, 1360, 900, "light")?;
        browser.press(&page, "?")?;
        browser.until(&page, "document.querySelector('#help').open")?;
        browser.press(&page, "Escape")?;
        browser.until(&page, "!document.querySelector('#help').open")?;
        browser.press(&page, "/")?;
        browser.type_text(&page, "tenant-4")?;
        browser.until(&page, "document.querySelector('.table').getAttribute('aria-rowcount') === '101'")?;
        browser.press(&page, "ArrowDown")?;
        browser.until(&page, "document.activeElement.matches('.table')")?;
        browser.press(&page, "End")?;
        let active = "document.getElementById(document.querySelector('.table').getAttribute('aria-activedescendant'))";
        browser.until(&page, &format!("{active}?.innerText.includes('tenant-499')"))?;
        // What is active is seen.
        let is_seen = format!("(() => {{ const box = {active}.getBoundingClientRect(); return box.top > 52 && box.bottom <= innerHeight; }})()");
        browser.until(&page, &is_seen)?;
        browser.press(&page, "ArrowUp")?;
        browser.until(&page, &format!("{active}?.innerText.includes('tenant-498')"))?;
        browser.press(&page, "Enter")?;
        browser.until_shown(&page, "h1", "tenant-498")?;

        browser.until(&page, "document.querySelector('.chart path.line') !== null")?;
        browser.value(&page, "document.querySelector('.plot').focus()")?;
        browser.press(&page, "ArrowLeft")?;
        browser.until(&page, "document.querySelector('.readout time').innerText !== ''")?;
        browser.press(&page, "Escape")?;
        browser.until_shown(&page, ".row a", "tenant-4")?;

        browser.press(&page, "/")?;
        browser.type_text(&page, "Deployment/demo/web")?;
        browser.press(&page, "Enter")?;
        browser.until(&page, "document.querySelectorAll('.box').length === 4")?;
        browser.value(&page, "document.querySelector('.box').focus()")?;
        browser.press(&page, "Enter")?;
        browser.until(&page, "document.activeElement.id === 'step-0'")?;
        // Everything that can be clicked can be focused, and has a name.
        let nameless = "[...document.querySelectorAll('a, button, input, [tabindex]')].filter((one) => one.offsetParent && one.tabIndex >= 0 \
            && !(one.innerText?.trim() || one.getAttribute('aria-label') || one.labels?.length || one.title)).length";
        assert_eq!(browser.value(&page, nameless)?, 0);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_a_thousand_rows_has_elements_for_those_that_are_seen() -> anyhow::Result<()> {
    in_browser("a_table_of_a_thousand_rows_has_elements_for_those_that_are_seen", &[], |browser, served| {
        let page = open(browser, served)?;
        browser.look(&page, 1360, 900, "light")?;
        browser.click(&page, ".head .name button")?;
        // Scrolls to the end in a hundred steps, a frame each, and notes how many rows there were and whether one was missing.
        let scroll = "(async () => { let most = 0, gaps = 0; const end = document.documentElement.scrollHeight; \
            const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); \
            for (let step = 0; step <= 100; step += 1) { window.scrollTo(0, end * step / 100); await frame(); \
              most = Math.max(most, document.querySelectorAll('.row').length); \
              const table = document.querySelector('.rows').getBoundingClientRect(); \
              const middle = Math.min(table.bottom - 5, innerHeight / 2); \
              if (!document.elementFromPoint(innerWidth / 2, middle)?.closest('.row')) gaps += table.top < middle ? 1 : 0; } \
            return [most, gaps]; })()";
        let scrolled = browser.value(&page, scroll)?;
        assert!(scrolled[0].as_u64().context("rows")? < MOST_ROWS as u64, "{scrolled}");
        assert_eq!(scrolled[1], 0, "places without a row");
        browser.until_shown(&page, ".row a", &name(PLUGINS - 1))?;

        // An update of one row changes the elements of one row, and the sums.
        browser.value(&page, "window.scrollTo(0, 0)")?;
        browser.until_shown(&page, ".row a", &name(0))?;
        browser.value(&page, "window.changed = new Set(); new MutationObserver((all) => all.forEach((one) => { \
            const row = (one.target.closest ? one.target : one.target.parentElement)?.closest('.row'); \
            if (row && one.type !== 'attributes') window.changed.add(row.row.name); \
            })).observe(document.querySelector('.rows'), {subtree: true, childList: true, characterData: true}); true")?;
        served.host.queue(777);
        browser.until_shown(&page, ".row", "777")?;
        let changed = browser.value(&page, "[...window.changed].join()")?;
        assert_eq!(changed, name(0));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_fit_a_phone_and_a_desk_in_light_and_dark() -> anyhow::Result<()> {
    in_browser(
        "the_pages_fit_a_phone_and_a_desk_in_light_and_dark",
        &[],
        |browser, served| {
            let page = open(browser, served)?;
            let folder = pictures()?;
            let pages = [
                ("plugins", "#/", ".row"),
                ("plugin", "#/plugin/deployment-controller", ".limits"),
                ("object", "#/object/Deployment%2Fdemo%2Fweb", ".box"),
            ];
            for (at, path, shown) in pages {
                browser.value(&page, &format!("location.hash = {path:?}"))?;
                browser.until(
                    &page,
                    &format!("document.querySelector({shown:?}) !== null"),
                )?;
                let mut grounds = Vec::new();
                for (width, height) in [(1360, 900), (390, 844)] {
                    for scheme in ["light", "dark"] {
                        browser.look(&page, width, height, scheme)?;
                        browser.until(&page, &format!("innerWidth === {width}"))?;
                        browser
                            .until(&page, "document.documentElement.scrollWidth <= innerWidth")?;
                        grounds.push(
                            browser
                                .value(&page, "getComputedStyle(document.body).backgroundColor")?,
                        );
                        let contrast = browser.value(&page, CONTRAST)?;
                        assert_eq!(contrast, "", "{at} {width} {scheme}: too little contrast");
                        browser
                            .picture(&page, &folder.join(format!("{at}-{width}-{scheme}.png")))?;
                    }
                }
                assert_ne!(grounds[0], grounds[1], "{at}: dark is another colour");
            }
            Ok(())
        },
    )
    .await
}

/// The texts whose contrast with the ground behind them is below 4.5 to 1, which WCAG's level AA demands.
const CONTRAST: &str = r#"(() => {
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (rgb) => { const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (one) => { for (let at = one; at; at = at.parentElement) { const c = numbers(getComputedStyle(at).backgroundColor); if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
  const found = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const has = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!has || !one.offsetParent || one.closest("svg")) continue;
    const [a, b] = [light(numbers(getComputedStyle(one).color).slice(0, 3)), light(ground(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add(`${one.className || one.tagName} ${contrast.toFixed(2)}`);
  }
  return [...found].join();
})()"#;

/// The folder for pictures, for people to look at.
fn pictures() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_becomes_code_and_no_other_page_reads_or_frames_the_dashboard() -> anyhow::Result<()>
{
    // The name of the attacker's server resolves to this machine, as after DNS rebinding.
    let resolver = "--host-resolver-rules=MAP evil.example 127.0.0.1";
    let evil = TcpListener::bind("127.0.0.1:0").await?;
    let port = evil.local_addr()?.port();
    let serving = tokio::spawn(serve_evil(evil));
    let test = "no_text_becomes_code_and_no_other_page_reads_or_frames_the_dashboard";
    in_browser(test, &[resolver], |browser, served| {
        let page = open(browser, served)?;
        let authority = served.authority();
        // Neither markup nor a script that somehow got into the page runs.
        let inline = "(() => { const script = document.createElement('script'); try { script.text = 'window.ran = 1'; } catch { return true; } \
            document.body.append(script); return window.ran === undefined; })()";
        assert_eq!(browser.value(&page, inline)?, true);
        let markup = format!("(() => {{ try {{ document.body.innerHTML = {MARKUP:?}; return false; }} catch {{ return true; }} }})()");
        assert_eq!(browser.value(&page, &markup)?, true);
        let elsewhere = "fetch('http://evil.example/').then(() => false, () => true)";
        assert_eq!(browser.value(&page, elsewhere)?, true);
        browser.console();

        // Pages of another origin in the same browser, whose cookies they send: another site, another port of the address.
        let key = browser.value(&page, "localStorage.getItem('flyball-key')")?;
        for host in [format!("evil.example:{port}"), format!("127.0.0.1:{port}")] {
            browser.go(&page, &format!("http://{host}/"))?;
            browser.until(&page, "document.title === 'evil'")?;
            assert_eq!(browser.value(&page, "localStorage.getItem('flyball-key')")?, serde_json::Value::Null);
            for options in [
                "{credentials: 'include'}".to_owned(),
                "{credentials: 'include', mode: 'no-cors'}".to_owned(),
                // Even with the key, which it can't know.
                format!("{{credentials: 'include', headers: {{'X-Flyball-Key': {key}}}}}"),
            ] {
                let read = format!(
                    "fetch('http://{authority}/dashboard/api/stream?view=plugins', {options}).then(async (got) => \
                     got.type === 'opaque' ? '' : await got.text(), () => '')"
                );
                assert_eq!(browser.value(&page, &read)?, "", "{host} {options}");
            }
            let script = format!(
                "new Promise((done) => {{ const one = document.createElement('script'); one.src = 'http://{authority}/dashboard/app.js'; \
                 one.onload = () => done(false); one.onerror = () => done(true); document.body.append(one); }})"
            );
            assert_eq!(browser.value(&page, &script)?, true, "{host}");
            let frame = format!(
                "new Promise((done) => {{ const one = document.createElement('iframe'); one.src = 'http://{authority}/dashboard/'; \
                 one.onload = () => {{ try {{ done(one.contentDocument?.body?.innerText ?? ''); }} catch {{ done(''); }} }}; document.body.append(one); }})"
            );
            let framed = browser.value(&page, &frame)?;
            assert!(!framed.to_string().contains("tenant"), "{framed}");
        }
        // The dashboard by the attacker's name.
        let own_port = authority.rsplit(':').next().context("a port")?;
        browser.go(&page, &format!("http://evil.example:{own_port}/dashboard/"))?;
        browser.until_shown(&page, "body", "this server is 127.0.0.1")?;
        // What browsers say about refusals.
        browser.console();
        Ok(())
    })
    .await?;
    serving.abort();
    Ok(())
}

/// Serves a page to everyone.
async fn serve_evil(listener: TcpListener) -> std::io::Result<()> {
    let page = "<!doctype html><title>evil</title><body>";
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await?;
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
