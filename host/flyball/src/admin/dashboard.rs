//! `flyball dashboard`, and what the dashboard shows: the answers of the admin socket, in this process or another.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Once};

use anyhow::{Context, anyhow};
use flyball_dashboard::{Followed, LocalServer, Problem, Query, Source, Warning};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::client::RunningHost;
use super::protocol::{Request, Response};
use super::server::{Host, handle};
use crate::user_folders;

/// Lines of a log that may wait for a page. The host keeps some more for one that lags.
const LINES: usize = 256;
/// The longest response of a host in bytes. A thousand plugins need a hundredth of it.
const MAX_RESPONSE: u64 = 256 << 20;

/// The running host itself.
pub(crate) struct InProcess(pub(crate) Host);

/// A running host, over its admin socket.
struct OverSocket(RunningHost);

impl Source for InProcess {
    fn document<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Value, Problem>> {
        Box::pin(async move {
            let response = handle(request(query), &self.0).await;
            document(serde_json::to_value(response).unwrap_or_default())
        })
    }

    fn follow<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<Followed, Problem>> {
        Box::pin(async move {
            let refused = |error: &dyn std::error::Error| Problem::Refused(error.to_string());
            let described = self.0.admin.describe(plugin).await;
            described.map_err(|error| refused(&error))?;
            let followed = self.0.recent.follow(plugin);
            followed.map_err(|error| refused(&error))
        })
    }
}

impl Source for OverSocket {
    fn document<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Value, Problem>> {
        Box::pin(async move {
            let mut lines = self.send(&request(query)).await.map_err(unreachable)?;
            let line = lines.next_line().await.map_err(unreachable)?;
            let response = line.map(|line| serde_json::from_str(&line)).transpose();
            let response = response.map_err(unreachable)?;
            document(response.unwrap_or_default())
        })
    }

    fn follow<'a>(&'a self, plugin: &'a str) -> BoxFuture<'a, Result<Followed, Problem>> {
        Box::pin(async move {
            let request = Request::Logs {
                plugin: plugin.to_owned(),
                follow: true,
            };
            let mut responses = self.send(&request).await.map_err(unreachable)?;
            let last = next_lines(&mut responses).await?;
            let (sender, further) = mpsc::channel(LINES);
            // It ends when the host ends, or with the next line that nobody receives any more.
            tokio::spawn(async move {
                tokio::select! {
                    () = pass_on(&mut responses, &sender) => {}
                    () = sender.closed() => {}
                }
            });
            Ok((last, further))
        })
    }
}

type Responses = tokio::io::Lines<BufReader<tokio::io::Take<UnixStream>>>;

impl OverSocket {
    async fn send(&self, request: &Request) -> anyhow::Result<Responses> {
        let stream = self.0.connect()?;
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream)?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let bounded = tokio::io::AsyncReadExt::take(stream, MAX_RESPONSE);
        Ok(BufReader::new(bounded).lines())
    }
}

async fn pass_on(responses: &mut Responses, lines: &mpsc::Sender<String>) {
    while let Ok(more) = next_lines(responses).await {
        for line in more {
            if lines.send(line).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the lines of the log in the next response.
async fn next_lines(responses: &mut Responses) -> Result<Vec<String>, Problem> {
    let response = responses.next_line().await.map_err(unreachable)?;
    let response = response.ok_or_else(|| unreachable(anyhow!("it closed the connection")))?;
    match serde_json::from_str(&response).map_err(unreachable)? {
        Response::Logs(lines) => Ok(lines),
        Response::Error(error) => Err(Problem::Refused(error)),
        _ => Err(unreachable(anyhow!("it may be of another version"))),
    }
}

fn request(query: &Query) -> Request {
    match query {
        Query::Host => Request::Host,
        Query::Plugins => Request::Status,
        Query::Trends => Request::Trends,
        Query::Plugin(plugin) => Request::Details {
            plugin: plugin.clone(),
        },
        Query::Object(object) => Request::Causes {
            object: object.clone(),
        },
    }
}

/// Returns the document in a response, which is an object with the response's name as its only key.
fn document(response: Value) -> Result<Value, Problem> {
    let fields = match response {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    };
    match fields.into_iter().next() {
        Some((name, Value::String(error))) if name == "error" => Err(Problem::Refused(error)),
        Some((_, document)) => Ok(document),
        None => Err(unreachable(anyhow!(
            "it closed the connection without a response"
        ))),
    }
}

fn unreachable(error: impl Into<anyhow::Error>) -> Problem {
    Problem::Unreachable(format!("{:#}", error.into()))
}

/// Serves the dashboard of a running host until a signal, and opens it in the user's browser.
pub(super) fn run(host: RunningHost, port: u16, opens: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Without a host, the user learns so here and not in the browser.
        let source = OverSocket(host);
        if let Err(problem) = source.document(&Query::Host).await {
            return Err(anyhow!("{problem}"));
        }
        let server = LocalServer::bind(Arc::new(source), port, warner()).await?;
        let server = Arc::new(server);
        let link = server.link();
        println!("The dashboard, valid once: {link}");
        println!("Enter prints another link; Ctrl-C ends the dashboard.");
        let _page = match opens {
            true => open(&link),
            false => None,
        };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.clone().serve(stop.clone()));
        print_links(server)?;
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.cancel();
        serving.await.context("the task of the server panicked")
    })
}

/// Returns what prints each kind of warning, once: whoever causes it could do so again and again.
fn warner() -> impl Fn(Warning) + Send + Sync {
    let (again, other) = (Once::new(), Once::new());
    move |warning| {
        match warning {
        Warning::UsedAgain => again.call_once(|| {
            eprintln!(
                "flyball: somebody tried a link that was opened before. If it wasn't you, another user may have seen it: \
                 stop this command with Ctrl-C, which ends all sessions"
            );
        }),
        Warning::OtherUser => other.call_once(|| {
            eprintln!(
                "flyball: another user of this machine connected to the dashboard, and got no answer"
            );
        }),
    }
    }
}

/// Prints a link for each line that the user enters. The thread ends with the input, or with the process.
fn print_links(server: Arc<LocalServer>) -> anyhow::Result<()> {
    let print = move || {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            println!("The dashboard, valid once: {}", server.link());
        }
    };
    std::thread::Builder::new()
        .name("links".to_owned())
        .spawn(print)?;
    Ok(())
}

/// A file that leads a browser to a link. It is deleted when this is dropped.
struct Page(PathBuf);

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens a link in the user's browser, if there is one. The link is passed in a file that only this user can read: every
/// user can see the arguments of a program.
fn open(link: &str) -> Option<Page> {
    let opener = opener()?;
    let page = write_page(&user_folders::runtime()?, link).ok()?;
    let mut opened = Command::new(opener);
    opened
        .arg(&page.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // It may end only with the browser, which may go on when this command has ended.
    let opening = std::thread::Builder::new().name("opening".to_owned());
    opening.spawn(move || drop(opened.status())).ok()?;
    Some(page)
}

/// The program that opens files; none on a machine without a screen.
fn opener() -> Option<&'static str> {
    let has_screen = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(target_os = "macos") {
        Some("open")
    } else if has_screen("DISPLAY") || has_screen("WAYLAND_DISPLAY") {
        Some("xdg-open")
    } else {
        None
    }
}

fn write_page(folder: &Path, link: &str) -> anyhow::Result<Page> {
    std::fs::create_dir_all(folder)?;
    let page = Page(folder.join(format!("dashboard-{}.html", std::process::id())));
    // One of a process that had the same number.
    let _ = std::fs::remove_file(&page.0);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&page.0)?;
    // A link has no characters with a meaning in HTML.
    write!(
        file,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={link}\"><a href=\"{link}\">Flyball's dashboard</a>"
    )?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_is_a_document_or_a_problem() {
        let plugins = json!({"status": [{"name": "a"}]});
        assert_eq!(document(plugins), Ok(json!([{"name": "a"}])));
        let refused = json!({"error": "there is no plugin `a`"});
        assert_eq!(
            document(refused),
            Err(Problem::Refused("there is no plugin `a`".to_owned()))
        );
        for other in [json!(null), json!({}), json!("a")] {
            let problem = document(other.clone()).unwrap_err();
            assert!(matches!(problem, Problem::Unreachable(_)), "{other}");
        }
    }

    #[test]
    fn each_query_is_a_request_that_the_socket_knows() {
        for query in [
            Query::Host,
            Query::Plugins,
            Query::Trends,
            Query::Plugin("a".to_owned()),
            Query::Object("Pod/demo/a".to_owned()),
        ] {
            let request = request(&query);
            let line = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
    }

    #[test]
    fn a_page_that_leads_to_a_link_is_private_and_deleted() {
        let home = tempfile::tempdir().unwrap();
        let page = write_page(home.path(), "http://127.0.0.1:1/dashboard/#token=a").unwrap();
        let path = page.0.clone();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(page);
        assert!(!path.exists());
    }
}
