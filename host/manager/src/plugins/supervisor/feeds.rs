//! Follows the plugin folders and the policy. Each has a task that reads it on a blocking thread and sends it to the
//! supervisor when it has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_policy::{Policy, approve};
use flyball_types::description::Description;
use flyball_types::error_chain;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Event, Reply};
use crate::plugins::files::{Folders, Scan};
use crate::plugins::requests::RequestError;

type Events = mpsc::UnboundedSender<Event>;

/// A request to approve a plugin.
pub(super) struct Approval {
    pub(super) description: Arc<Description>,
    pub(super) reply: Reply,
}

/// Follows the plugin folders; `known` is the result of the last scan.
pub(super) fn follow_files(
    mut folders: Folders,
    mut known: Scan,
    events: Events,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            folders.changed().await;
            let Some((same, scan)) = folders.scan().await else {
                tracing::error!("can't scan the plugin folders: changes are ignored from now on");
                return;
            };
            folders = same;
            if scan != known {
                known.clone_from(&scan);
                let _ = events.send(Event::Files(scan));
            }
        }
    }))
}

/// Follows the policy at `path`; `known` is the one in force. Approvals run in the same task, so that no older policy
/// is sent after an approved one.
pub(super) fn follow_policy(
    path: PathBuf,
    known: Policy,
    mut approvals: mpsc::UnboundedReceiver<Approval>,
    events: Events,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut folders = Folders::new(vec![path.clone()], "toml");
        let mut known = Ok(known);
        loop {
            let Some((same, scan)) = folders.scan().await else {
                tracing::error!("can't look for the policy: its changes are ignored from now on");
                return;
            };
            folders = same;
            if scan.unreadable.is_empty() {
                send_new(&path, &mut known, &events).await;
            }
            tokio::select! {
                () = folders.changed() => {}
                Some(approval) = approvals.recv() => {
                    let done = approve(&path, approval.description).await;
                    if done.is_ok() {
                        send_new(&path, &mut known, &events).await;
                    }
                    let _ = events.send(Event::Done(done, approval.reply));
                }
            }
        }
    }))
}

/// Reads the policy, and sends it if it differs from the known one.
async fn send_new(path: &Path, known: &mut Result<Policy, String>, events: &Events) {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || Policy::read(&path)).await;
    let policy = match read {
        Ok(Ok(policy)) => Ok(policy),
        Ok(Err(error)) => Err(error_chain(&error)),
        Err(panicked) => Err(panicked.to_string()),
    };
    if policy != *known {
        known.clone_from(&policy);
        let _ = events.send(Event::Policy(policy));
    }
}

async fn approve(path: &Path, description: Arc<Description>) -> Result<String, RequestError> {
    let path = path.to_owned();
    let approve = move || approve::approve(&path, &description);
    match tokio::task::spawn_blocking(approve).await {
        Ok(Ok(sentence)) => Ok(sentence),
        Ok(Err(error)) => Err(RequestError::Refused(error_chain(&error))),
        Err(panicked) => Err(RequestError::Refused(panicked.to_string())),
    }
}
