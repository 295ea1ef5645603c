//! `flyball record`: the host's end sends the calls of a plugin as lines of a recording, the operator's end writes them
//! into a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use bytes::Bytes;
use flyball_manager::{Recordings, RequestError};
use flyball_recording::file::header_line;
use flyball_recording::{Header, file};
use flyball_rehearse::{Listener, Wanted, export, is_of_key};
use flyball_types::printable;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::client::RunningHost;
use super::protocol::{Record, Request, Response};
use super::server::{Host, send};

/// Calls with fewer bytes are prepared at once. Others are on a thread that may block.
const SMALL: usize = 64 << 10;

/// Record calls of a plugin: what it asked, what it was answered, and how it ended
///
/// Writes the last calls that failed, trapped or took long, which the host keeps, and with --for or --all further ones as
/// they end. `flyball replay` repeats them, with no cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The plugin's name
    plugin: String,
    /// Only reconciles of this key
    #[arg(long)]
    key: Option<String>,
    /// Go on for this time, as in `30s` or `5m`
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Record all calls from now on, also those that end well; without --for, until Ctrl-C
    #[arg(long)]
    all: bool,
    /// Leave out the calls that the host keeps: record only those that end from now on
    #[arg(long)]
    new: bool,
    /// Leave the data of Secrets, tokens and credentials in the recording
    #[arg(long)]
    with_secrets: bool,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    host: RunningHost,
}

/// Parses a time, as in `30s` or `5m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    flyball_types::duration::parse(text).map_err(|error| error.to_string())
}

/// Writes a recording, and returns a sentence about it.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<String> {
    let Arguments {
        plugin,
        key,
        duration,
        all,
        new,
        with_secrets,
        output,
        host,
    } = arguments;
    if new && !all && duration.is_none() {
        bail!(
            "--new without --for or --all would record nothing: say for how long, as in --for 1m"
        );
    }
    let request = Request::Record(Record {
        plugin: plugin.clone(),
        key,
        all,
        new,
        with_secrets,
        for_ms: duration.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    });
    let mut responses = host.converse(&request)?;
    // The host may refuse before there is a file.
    let first = responses
        .next()
        .context("the host closed the connection without a response")??;
    let mut file = create(&output)?;
    let (mut calls, mut told) = (0_usize, String::new());
    let written = |error: io::Error| anyhow::Error::new(error).context(cant_write(&output));
    let mut next = Some(Ok(first));
    while let Some(response) = next {
        let response = match response {
            Ok(response) => response,
            // The host ends. The calls until now are in the file.
            Err(error) => {
                told = format!("the host ended the recording: {error}");
                break;
            }
        };
        match response {
            Response::Recorded(line) => {
                // In one write, so that an interrupted recording ends with a whole line.
                let line = [line.get().as_bytes(), b"\n"].concat();
                file.write_all(&line).map_err(written)?;
                calls += 1;
            }
            Response::Done(sentence) => told = sentence,
            _ => return Err(super::client::unexpected_response()),
        }
        next = responses.next();
    }
    // Besides the header and the description.
    let calls = calls.saturating_sub(2);
    let path = output.display();
    let told = if told.is_empty() {
        told
    } else {
        format!("; {}", printable(&told))
    };
    Ok(match calls {
        0 => format!("{path}: no call of {plugin} was recorded{told}\n"),
        1 => format!("{path}: 1 call of {plugin}{told}\n"),
        _ => format!("{path}: {calls} calls of {plugin}{told}\n"),
    })
}

fn cant_write(path: &Path) -> String {
    format!("can't write the recording {}", path.display())
}

/// Creates the file with access for this user only: a recording has objects of the cluster.
fn create(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).with_context(|| cant_write(path))
}

/// Sends a recording: the header, the description, the calls that are kept and, if they are asked for, further ones.
pub(super) async fn serve(
    asked: Record,
    host: &Host,
    writing: &mut (impl AsyncWriteExt + Unpin),
) -> io::Result<()> {
    match host.admin.recordings(&asked.plugin).await {
        Ok(recordings) => sent(asked, recordings, writing).await,
        Err(error) => send(writing, &refused(&error)).await,
    }
}

fn refused(error: &RequestError) -> Response {
    Response::Error(error.to_string())
}

async fn sent(
    asked: Record,
    recordings: Recordings,
    writing: &mut (impl AsyncWriteExt + Unpin),
) -> io::Result<()> {
    let Recordings {
        recorder,
        header,
        described,
    } = recordings;
    let header = Header {
        with_secrets: asked.with_secrets,
        at: jiff::Timestamp::try_from(SystemTime::now())
            .map(|at| format!("{at:.3}"))
            .unwrap_or_default(),
        ..header
    };
    let goes_on = asked.all || asked.for_ms.is_some();
    // Before those that are kept, so that none is missed in between. None is in both: what is kept has ended.
    let listener = goes_on.then(|| {
        recorder.listen(Wanted {
            key: asked.key.clone(),
            all: asked.all,
        })
    });
    let kept = match asked.new {
        true => Vec::new(),
        false => recorder.kept(),
    };
    drop(recorder);
    let mut sending = Sending {
        header,
        writing,
        left_out: 0,
    };
    let first = header_line(&sending.header);
    sending.line(&first).await?;
    if let Some(described) = file::call_line(&described) {
        sending.line(&described).await?;
    }
    let is_wanted = |line: &Bytes| asked.key.as_deref().is_none_or(|key| is_of_key(line, key));
    for line in kept.into_iter().filter(is_wanted) {
        sending.call(line).await?;
    }
    let mut dropped = 0;
    if let Some(mut listener) = listener {
        sending.further(&mut listener, asked.for_ms).await?;
        dropped = listener.dropped();
    }
    let told = sentence(sending.left_out, dropped);
    send(sending.writing, &Response::Done(told)).await
}

/// What is not in a recording; empty if all is.
fn sentence(left_out: u64, dropped: u64) -> String {
    let left_out = (left_out > 0).then(|| {
        format!(
            "{left_out} calls have too much data of Secrets to hide it: --with-secrets records them"
        )
    });
    let dropped = (dropped > 0)
        .then(|| format!("{dropped} calls were too large, or too many at once, to be recorded"));
    let parts: Vec<String> = [left_out, dropped].into_iter().flatten().collect();
    parts.join("; ")
}

struct Sending<'a, W> {
    header: Header,
    writing: &'a mut W,
    /// Calls that can't be in a recording without the data of Secrets.
    left_out: u64,
}

impl<W: AsyncWriteExt + Unpin> Sending<'_, W> {
    /// Sends the calls that end within this time. An operator who goes away ends it.
    async fn further(&mut self, listener: &mut Listener, for_ms: Option<u64>) -> io::Result<()> {
        let until = for_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        loop {
            let next = match until {
                Some(until) => tokio::time::timeout_at(until, listener.next()).await,
                None => Ok(listener.next().await),
            };
            match next {
                Ok(Some(line)) => self.call(line).await?,
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    async fn call(&mut self, line: Bytes) -> io::Result<()> {
        let exported = if line.len() < SMALL {
            export(&self.header, &line)
        } else {
            let header = self.header.clone();
            let work = move || export(&header, &line);
            tokio::task::spawn_blocking(work)
                .await
                .map_err(io::Error::other)?
        };
        match exported {
            Ok(line) => self.line(&line).await,
            Err(error) => {
                tracing::warn!("left a call out of a recording: {error}");
                self.left_out += 1;
                Ok(())
            }
        }
    }

    async fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        let line = RawValue::from_string(text).map_err(io::Error::other)?;
        send(self.writing, &Response::Recorded(line)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_a_recording_is_told() {
        assert_eq!(sentence(0, 0), "");
        assert!(sentence(2, 0).starts_with("2 calls have too much data of Secrets"));
        assert_eq!(sentence(1, 1).matches("; ").count(), 1);
    }

    #[test]
    fn a_recording_is_readable_by_its_user_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.fbrec");
        create(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_line_is_a_response_and_comes_back_byte_by_byte() {
        let line = RawValue::from_string("{\"a\": 1.0}".into()).unwrap();
        let sent = serde_json::to_string(&Response::Recorded(line)).unwrap();
        let Ok(Response::Recorded(read)) = serde_json::from_str(&sent) else {
            panic!("it is read")
        };
        assert_eq!(read.get(), "{\"a\": 1.0}");
    }
}
