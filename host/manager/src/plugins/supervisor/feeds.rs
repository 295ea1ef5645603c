//! Follows what changes on disk: the plugin folders and the policy. Each is read by a task of its own, off the async
//! threads, and sent to the supervisor when it has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_types::description::Description;
use flyball_types::error_chain;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Event, Reply};
use crate::plugins::files::{Folders, Look};
use crate::plugins::requests::RequestError;
use crate::policy::{Policy, approve};

type Events = mpsc::UnboundedSender<Event>;

/// A request to grant a plugin what it asks for.
pub(super) struct Approval {
    pub(super) description: Arc<Description>,
    pub(super) reply: Reply,
}

/// Follows the plugin folders; `known` is what the last look found.
pub(super) fn follow_files(
    mut folders: Folders,
    mut known: Look,
    events: Events,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            folders.changed().await;
            let Some((same, look)) = folders.look_async().await else {
                tracing::error!(
                    "looking into the plugin folders failed: they are followed no more"
                );
                return;
            };
            folders = same;
            if look != known {
                known.clone_from(&look);
                let _ = events.send(Event::Files(look));
            }
        }
    }))
}

/// Follows the policy at `path`; `known` is the one in force. The same task approves, so that no older policy is sent after
/// an approved one.
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
            let Some((same, look)) = folders.look_async().await else {
                tracing::error!("looking for the policy failed: it is followed no more");
                return;
            };
            folders = same;
            if look.unreadable.is_empty() {
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

/// Reads the policy and sends it, unless it is the one that is known.
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
