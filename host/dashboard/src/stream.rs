//! The events that keep a page current, as server-sent events: `event: NAME`, `data: JSON`.
//!
//! Each stream shows one view. It begins with all that the view shows; further events have what has changed. A stream
//! has no task of its own: the connection that sends it drives it, so a slow client is asked for less often, and one that
//! leaves costs nothing any more.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::changes::{Fields, Rows};
use crate::feed::Feed;
use crate::source::{Problem, Query};

/// The interval between two looks at the plugins.
const PERIOD: Duration = Duration::from_secs(1);
/// How old an answer may be that is shared with another client.
const FRESH: Duration = Duration::from_millis(900);
/// The interval at which the host takes its samples, and so between two looks at them.
const SAMPLES: Duration = Duration::from_secs(10);
/// The least interval between two looks at the causes of an object.
const CAUSES: Duration = Duration::from_secs(2);
/// A look at the causes takes no more than one part in this of the time.
const SHARE: u32 = 20;
/// A stream without events has a comment after this time, so that both sides notice when the other is gone.
const BEAT: Duration = Duration::from_secs(15);
/// Events that may wait for the client.
const WAITING: usize = 4;
/// The most lines of the log in one event.
const LINES: usize = 256;

/// What a stream shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Plugins,
    Plugin(String),
    Object(String),
}

impl View {
    /// Parses the query of a URI: `view=plugins`, `plugin=NAME` or `object=TEXT`.
    pub(crate) fn parse(query: &str) -> Option<Self> {
        form_urlencoded::parse(query.as_bytes()).find_map(|(key, value)| match &*key {
            "view" if value == "plugins" => Some(Self::Plugins),
            "plugin" => Some(Self::Plugin(value.into_owned())),
            "object" => Some(Self::Object(value.into_owned())),
            _ => None,
        })
    }
}

/// The body of a response: the events of a stream.
pub struct Events {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
    events: mpsc::Receiver<Bytes>,
    held: Vec<Box<dyn Any + Send + Sync>>,
}

impl Events {
    pub(crate) fn new(view: View, feed: Arc<Feed>, closing: CancellationToken) -> Self {
        let (sender, events) = mpsc::channel(WAITING);
        let work = async move {
            // Fails when the client is gone, which drops this future too.
            let writer = Writer(sender);
            let running = run(view, &feed, &writer);
            let _ = closing.run_until_cancelled(running).await;
        };
        Self {
            work: Box::pin(work),
            has_ended: false,
            events,
            held: Vec::new(),
        }
    }

    /// Keeps a value until the stream ends, such as a permit.
    pub fn hold(&mut self, value: impl Any + Send + Sync) {
        self.held.push(Box::new(value));
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.has_ended && self.work.as_mut().poll(context).is_ready() {
            self.has_ended = true;
        }
        let event = self.events.poll_recv(context);
        event.map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Nobody receives the events any more.
struct Gone;

struct Writer(mpsc::Sender<Bytes>);

impl Writer {
    async fn send(&self, event: &str, data: &Value) -> Result<(), Gone> {
        // JSON on one line has no line break that would end the event.
        self.write(format!("event: {event}\ndata: {data}\n\n"))
            .await
    }

    async fn problem(&self, problem: &Problem) -> Result<(), Gone> {
        let is_lost = matches!(problem, Problem::Unreachable(_));
        let data = json!({"message": problem.to_string(), "isLost": is_lost});
        self.send("problem", &data).await
    }

    async fn write(&self, text: String) -> Result<(), Gone> {
        self.0.send(text.into()).await.map_err(|_| Gone)
    }
}

async fn run(view: View, feed: &Feed, writer: &Writer) -> Result<(), Gone> {
    match view {
        View::Plugins => plugins(feed, writer).await,
        View::Plugin(name) => plugin(&name, feed, writer).await,
        View::Object(text) => object(text, feed, writer).await,
    }
}

/// Looks at something again and again: sends what has changed, the problem when there is one, and a comment now and then.
struct Watched<'a> {
    writer: &'a Writer,
    problem: Option<Problem>,
    last_event: Instant,
}

impl<'a> Watched<'a> {
    fn new(writer: &'a Writer) -> Self {
        Self {
            writer,
            problem: None,
            last_event: Instant::now(),
        }
    }

    /// Sends an event, unless there is none.
    async fn send(&mut self, event: &str, data: Option<Value>) -> Result<(), Gone> {
        if let Some(data) = data {
            self.writer.send(event, &data).await?;
            self.last_event = Instant::now();
        }
        Ok(())
    }

    /// Notes how a look ended: sends a problem when it is a new one, and its end.
    async fn note(&mut self, problem: Option<&Problem>) -> Result<(), Gone> {
        if self.problem.as_ref() != problem {
            match problem {
                Some(problem) => self.writer.problem(problem).await?,
                None => self.writer.send("solved", &json!({})).await?,
            }
            self.problem = problem.cloned();
            self.last_event = Instant::now();
        }
        if self.last_event.elapsed() >= BEAT {
            self.writer.write(": still here\n\n".to_owned()).await?;
            self.last_event = Instant::now();
        }
        Ok(())
    }
}

async fn plugins(feed: &Feed, writer: &Writer) -> Result<(), Gone> {
    let (mut rows, mut host, mut trends) = (Rows::default(), Fields::default(), Fields::default());
    let mut watched = Watched::new(writer);
    let mut samples: Option<Instant> = None;
    let mut period = tokio::time::interval(PERIOD);
    loop {
        period.tick().await;
        let plugins = feed.ask(&Query::Plugins, FRESH).await;
        if plugins.is_ok() {
            let table = feed.table(&plugins);
            watched.send("plugins", rows.update(table)).await?;
            if samples.is_none_or(|at| at.elapsed() >= SAMPLES) {
                samples = Some(Instant::now());
                if let Ok(current) = &*feed.ask(&Query::Host, SAMPLES / 2).await {
                    watched.send("host", host.update(current.clone())).await?;
                }
                if let Ok(current) = &*feed.ask(&Query::Trends, SAMPLES / 2).await {
                    watched
                        .send("trends", trends.update(current.clone()))
                        .await?;
                }
            }
        }
        watched.note(plugins.as_ref().as_ref().err()).await?;
    }
}

async fn plugin(name: &str, feed: &Feed, writer: &Writer) -> Result<(), Gone> {
    let query = Query::Plugin(name.to_owned());
    let mut fields = Fields::default();
    let mut watched = Watched::new(writer);
    let mut period = tokio::time::interval(PERIOD);
    let mut log: Option<mpsc::Receiver<String>> = None;
    let mut lines = Vec::new();
    loop {
        tokio::select! {
            _ = period.tick() => {
                let answer = feed.ask(&query, FRESH).await;
                if let Ok(document) = &*answer {
                    watched.send("plugin", fields.update(document.clone())).await?;
                    if log.is_none() && let Ok((last, further)) = feed.source().follow(name).await {
                        let data = json!({"all": true, "lines": last});
                        watched.send("log", Some(data)).await?;
                        log = Some(further);
                    }
                }
                watched.note(answer.as_ref().as_ref().err()).await?;
            }
            received = more_of(&mut log, &mut lines) => match received {
                0 => log = None,
                _ => {
                    let data = json!({"all": false, "lines": lines});
                    lines.clear();
                    watched.send("log", Some(data)).await?;
                }
            }
        }
    }
}

/// Receives further lines; waits forever without a log. Returns 0 when the log ends.
async fn more_of(log: &mut Option<mpsc::Receiver<String>>, lines: &mut Vec<String>) -> usize {
    match log {
        Some(log) => log.recv_many(lines, LINES).await,
        None => std::future::pending().await,
    }
}

async fn object(text: String, feed: &Feed, writer: &Writer) -> Result<(), Gone> {
    let query = Query::Object(text);
    let mut fields = Fields::default();
    let mut watched = Watched::new(writer);
    loop {
        let begun = Instant::now();
        let answer = feed.ask(&query, FRESH).await;
        let took = begun.elapsed();
        if let Ok(document) = &*answer {
            watched
                .send("object", fields.update(document.clone()))
                .await?;
        }
        watched.note(answer.as_ref().as_ref().err()).await?;
        tokio::time::sleep(CAUSES.max(took * SHARE)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_named_by_the_query() {
        let object = View::Object("Pod demo/a b".to_owned());
        for (query, view) in [
            ("view=plugins", Some(View::Plugins)),
            ("plugin=a%2Fb", Some(View::Plugin("a/b".to_owned()))),
            ("object=Pod+demo%2Fa%20b", Some(object)),
            ("view=secrets", None),
            ("", None),
        ] {
            assert_eq!(View::parse(query), view, "{query}");
        }
    }
}
