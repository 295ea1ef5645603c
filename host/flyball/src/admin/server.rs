//! The host's end of the admin socket.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use flyball_manager::AdminHandle;
use flyball_serving::{KUBERNETES, Metrics};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::about::About;
use super::protocol::{HostInfo, Request, Response};
use super::{record, socket};
use crate::logging::Recent;

/// Maximum size of a request in bytes.
const MAX_REQUEST: u64 = 64 * 1024;

/// The pause after a failure to accept a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The host's state that operators can query.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) admin: AdminHandle,
    /// The last lines of the log.
    pub(crate) recent: Recent,
    pub(crate) metrics: Metrics,
    pub(crate) about: Arc<About>,
    /// When the host started.
    pub(crate) since: jiff::Timestamp,
}

impl Host {
    fn info(&self) -> HostInfo {
        HostInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kubernetes: KUBERNETES.to_owned(),
            since: format!("{:.0}", self.since),
        }
    }
}

/// The task that serves the socket.
pub(crate) struct Server {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

/// Serves the socket at `path`, or else at its default path. Returns none if the socket can't be created at the default
/// path, or if the user has none: the controllers run without it.
///
/// # Errors
/// Fails if another process serves the socket at `path`, or if it can't be created there.
pub(crate) async fn serve(path: Option<&Path>, host: Host) -> anyhow::Result<Option<Server>> {
    let bound = match path {
        Some(path) => {
            let listener = bind(path).await.with_context(|| cant_serve(path))?;
            Some((listener, path.to_owned()))
        }
        None => bind_default_or_warn().await,
    };
    Ok(bound.map(|(listener, path)| {
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve_on(listener, path, host, stop.clone()));
        Server { task, stop }
    }))
}

impl Server {
    /// Closes the connections and deletes the socket.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // The process is ending: a panic of the task doesn't matter any more.
        let _ = self.task.await;
    }
}

async fn bind_default_or_warn() -> Option<(UnixListener, PathBuf)> {
    let path = socket::default()?;
    let bound = bind_default(&path, std::process::id()).await;
    match bound.with_context(|| cant_serve(&path)) {
        Ok((listener, bound)) => {
            if bound != path {
                tracing::info!(
                    socket = %bound.display(),
                    "another host of this user serves the default admin socket: name this one with --admin-socket"
                );
            }
            Some((listener, bound))
        }
        Err(error) => {
            tracing::warn!("{error:#}; the controllers run without an admin socket");
            None
        }
    }
}

fn cant_serve(path: &Path) -> String {
    format!("can't serve the admin socket {}", path.display())
}

/// Binds the socket, or `NAME-PID.sock` beside it if another host serves it. Deletes sockets beside it that no process
/// serves any more.
async fn bind_default(path: &Path, process: u32) -> anyhow::Result<(UnixListener, PathBuf)> {
    for stale in socket::beside(path) {
        if UnixStream::connect(&stale).await.is_err() {
            let _ = fs::remove_file(stale);
        }
    }
    match bind(path).await {
        Ok(listener) => Ok((listener, path.to_owned())),
        Err(error) if UnixStream::connect(path).await.is_err() => Err(error),
        Err(_) => {
            let own = socket::numbered(path, process);
            Ok((bind(&own).await?, own))
        }
    }
}

async fn serve_on(listener: UnixListener, path: PathBuf, host: Host, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = until_accepted(|| listener.accept()) => accepted,
            () = stop.cancelled() => break,
        };
        if !is_same_user(&stream) {
            tracing::warn!("refused a connection of another user to the admin socket");
            continue;
        }
        let (host, stop) = (host.clone(), stop.clone());
        connections.spawn(async move {
            tokio::select! {
                done = converse(stream, &host) => {
                    if let Err(error) = done {
                        tracing::debug!(%error, "a connection to the admin socket failed");
                    }
                }
                () = stop.cancelled() => {}
            }
        });
    }
    let _ = fs::remove_file(path);
}

/// Tries again after each failure, with a pause: if file descriptors have run out, the next try would fail at once.
async fn until_accepted<T, F>(accept: impl Fn() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        match accept().await {
            Ok(accepted) => return accepted,
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// Binds the socket with access for this user only. Replaces a socket that no process serves.
async fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    if UnixStream::connect(path).await.is_ok() {
        bail!("another host serves it: name another path with --admin-socket");
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => bail!("the file is not a socket: name another path with --admin-socket"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Whether the peer is a process of this user or of root. The file's mode ensures this too, but it is set only after
/// the socket is bound.
fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(mut stream: UnixStream, host: &Host) -> io::Result<()> {
    let Host { admin, recent, .. } = host;
    let (reading, mut writing) = stream.split();
    let mut line = String::new();
    BufReader::new(tokio::io::AsyncReadExt::take(reading, MAX_REQUEST))
        .read_line(&mut line)
        .await?;
    let request = match serde_json::from_str(&line) {
        Ok(request) => request,
        Err(error) => {
            let response = Response::Error(format!("this host does not know the request: {error}"));
            return send(&mut writing, &response).await;
        }
    };
    let plugin = match request {
        Request::Logs {
            plugin,
            follow: true,
        } => plugin,
        Request::Record(asked) => return record::serve(asked, host, &mut writing).await,
        request => return send(&mut writing, &handle(request, host).await).await,
    };
    if let Err(error) = admin.describe(&plugin).await {
        return send(&mut writing, &Response::Error(error.to_string())).await;
    }
    match recent.follow(&plugin) {
        Ok((lines, mut further)) => {
            send(&mut writing, &Response::Logs(lines)).await?;
            while let Some(line) = further.recv().await {
                send(&mut writing, &Response::Logs(vec![line])).await?;
            }
            Ok(())
        }
        Err(error) => send(&mut writing, &Response::Error(error.to_string())).await,
    }
}

/// Responds to a request, once.
pub(super) async fn handle(request: Request, host: &Host) -> Response {
    let Host {
        admin,
        recent,
        metrics,
        about,
        ..
    } = host;
    let done = match request {
        Request::Status => admin.status().await.map(Response::Status),
        Request::Why { object } => admin.why(&object).await.map(Response::Why),
        Request::Logs { plugin, .. } => match admin.describe(&plugin).await {
            Ok(_) => Ok(Response::Logs(recent.lines(&plugin))),
            Err(error) => Err(error),
        },
        Request::Approve { plugin, namespaces } => {
            let approved = admin.approve(&plugin, namespaces).await;
            approved.map(Response::Done)
        }
        Request::Rollback { plugin, to } => admin.roll_back(&plugin, to).await.map(Response::Done),
        Request::Resume { plugin } => admin.resume(&plugin).await.map(Response::Done),
        Request::Describe { plugin } => admin
            .describe(&plugin)
            .await
            .map(|description| Response::Described(Box::new(description))),
        Request::Kinds => admin.served_kinds().await.map(Response::Kinds),
        Request::StartShadow {
            plugin,
            file,
            for_ms,
        } => {
            let duration = for_ms.map(Duration::from_millis);
            let started = admin.start_shadow(&plugin, file, duration).await;
            started.map(Response::Done)
        }
        Request::Shadow { plugin } => admin
            .shadow(&plugin)
            .await
            .map(|status| Response::Shadow(Box::new(status))),
        Request::EndShadow { plugin } => admin.end_shadow(&plugin).await.map(Response::Done),
        Request::Promote { plugin } => admin.promote(&plugin).await.map(Response::Done),
        Request::StartCanary {
            plugin,
            file,
            rollout,
        } => {
            let started = admin.start_canary(&plugin, file, *rollout).await;
            started.map(Response::Done)
        }
        Request::Canary { plugin } => admin
            .canary(&plugin)
            .await
            .map(|status| Response::Canary(Box::new(status))),
        Request::AbortCanary { plugin } => admin.abort_canary(&plugin).await.map(Response::Done),
        Request::Record(_) => unreachable!("it has more than one response"),
        Request::Recent => admin.recent().await.map(Response::Why),
        Request::Metrics => Ok(Response::Metrics(metrics.render())),
        Request::About => Ok(Response::About(Box::new(About::clone(about)))),
        Request::Host => Ok(Response::Host(host.info())),
        Request::Details { plugin } => {
            let details = admin.details(&plugin).await;
            details.map(|details| Response::Details(Box::new(details)))
        }
        Request::Trends => admin.trends().await.map(Response::Trends),
        Request::Causes { object } => admin.causes(&object).await.map(Response::Causes),
    };
    done.unwrap_or_else(|error| Response::Error(error.to_string()))
}

pub(super) async fn send(
    writing: &mut (impl AsyncWriteExt + Unpin),
    response: &Response,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    writing.write_all(&line).await?;
    writing.flush().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    #[tokio::test]
    async fn a_second_host_has_a_socket_beside_the_first() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("flyball/admin.sock");
        let (first, at) = bind_default(&path, 1).await.unwrap();
        assert_eq!(at, path);
        let (second, at) = bind_default(&path, 2).await.unwrap();
        assert_eq!(at, home.path().join("flyball/admin-2.sock"));
        let (_third, _) = bind_default(&path, 3).await.unwrap();
        assert_eq!(socket::beside(&path).len(), 2);
        // The second host is killed: its socket is deleted when the next one starts.
        drop((first, second));
        let (_fourth, at) = bind_default(&path, 4).await.unwrap();
        assert_eq!(at, path);
        assert_eq!(
            socket::beside(&path),
            [home.path().join("flyball/admin-3.sock")]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_to_accept_a_connection_is_followed_by_a_pause() {
        let tries = AtomicU32::new(0);
        let start = tokio::time::Instant::now();
        let accept = || match tries.fetch_add(1, SeqCst) {
            0..3 => Err(io::Error::other("too many open files")),
            tried => Ok(tried),
        };
        let accepted = until_accepted(|| std::future::ready(accept()));
        assert_eq!(accepted.await, 3);
        assert_eq!(start.elapsed(), ACCEPT_AGAIN * 3);
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_kept_and_no_other_path_is_taken() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("admin.sock");
        fs::write(&path, "mine").unwrap();
        let error = bind_default(&path, 1).await.unwrap_err().to_string();
        assert!(error.contains("the file is not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(socket::beside(&path).len(), 0);
    }

    #[tokio::test]
    async fn the_socket_is_private_and_replaces_a_stale_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("flyball/admin.sock");
        let listener = bind(&path).await.unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            fs::metadata(path.parent().unwrap())
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        let error = bind(&path).await.unwrap_err().to_string();
        assert!(error.contains("another host serves it"), "{error}");
        drop(listener);
        bind(&path).await.unwrap();
        let file = home.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(bind(&file).await.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }
}
