//! The wanted state: the files of the plugin folders and the operator's policy. Each has a task that reads it on a
//! blocking thread and sends it to the supervisor when it has changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_cache::{Discovery, DiscoveryError};
use flyball_policy::grant::{Grants, Narrowing};
use flyball_policy::{Policy, approve, kinds};
use flyball_types::description::Description;
use flyball_types::{Kind, error_chain};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Answer, Event, Events, Reply};
use crate::plugins::DropIns;
use crate::plugins::files::{Folders, Scan};
use crate::plugins::plan::Inputs;
use crate::plugins::requests::RequestError;

/// The wanted state, and the tasks that follow it.
pub(super) struct Feeds {
    scan: Scan,
    grants: Grants,
    /// The file or folder of the policy, if there is one.
    policy: Option<PathBuf>,
    /// Why the policy on disk is not in force.
    policy_problem: Option<String>,
    enabled: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Requests to the task that follows the policy. Without a policy, there is no such task.
    approvals: mpsc::UnboundedSender<Approval>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// A request to approve a plugin.
struct Approval {
    description: Arc<Description>,
    /// The namespaces of the grant; none for all that the plugin asks for.
    narrowing: Option<Narrowing>,
    reply: Reply,
}

impl Feeds {
    /// Scans the plugin folders, and begins to follow them and the policy.
    pub(super) async fn start(drop_ins: DropIns, events: &Events) -> Self {
        let DropIns {
            folders,
            policy,
            grants,
            enabled,
            ..
        } = drop_ins;
        let mut tasks = Vec::new();
        let mut scan = Scan::default();
        if let Some((folders, first)) = Folders::new(folders, "wasm").scan().await {
            scan.clone_from(&first);
            tasks.push(follow_files(folders, first, events.clone()));
        }
        let (approvals, requests) = mpsc::unbounded_channel();
        if let Some(path) = policy.clone() {
            let known = grants.plugins.clone();
            tasks.push(follow_policy(path, known, requests, events.clone()));
        }
        Self {
            scan,
            grants,
            policy,
            policy_problem: None,
            enabled,
            approvals,
            _tasks: tasks,
        }
    }

    /// Returns the inputs of a plan.
    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            files: &self.scan.found,
            unreadable: &self.scan.unreadable,
            grants: &self.grants,
            policy_problem: self.policy_problem.as_deref(),
            enabled: &*self.enabled,
        }
    }

    /// Returns the grants of the last policy that could be read.
    pub(super) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns the path of the policy and why it is not in force; none if it is.
    pub(super) fn policy_problem(&self) -> Option<(&Path, &str)> {
        self.policy.as_deref().zip(self.policy_problem.as_deref())
    }

    pub(super) fn files_changed(&mut self, scan: Scan) {
        self.scan = scan;
    }

    pub(super) fn policy_changed(&mut self, policy: Result<Policy, String>) {
        match policy {
            Ok(policy) => {
                tracing::info!("the policy has changed");
                (self.grants.plugins, self.policy_problem) = (policy, None);
            }
            Err(problem) => self.policy_problem = Some(problem),
        }
    }

    /// Adds what a plugin asks for to the policy, in these namespaces or, if there are none, everywhere, and replies. The
    /// task that follows the policy does it, so that no older policy comes after the approval.
    pub(super) fn approve(
        &self,
        description: Arc<Description>,
        namespaces: BTreeSet<String>,
        discovery: &Arc<Discovery>,
        reply: Reply,
    ) {
        let (approvals, discovery) = (self.approvals.clone(), discovery.clone());
        tokio::spawn(async move {
            let narrowing = match namespaces.is_empty() {
                true => None,
                false => match narrowing(namespaces, &description, &discovery).await {
                    Ok(narrowing) => Some(narrowing),
                    Err(refused) => return drop(reply.send(Err(RequestError::Refused(refused)))),
                },
            };
            let approval = Approval {
                description,
                narrowing,
                reply,
            };
            if let Err(refused) = approvals.send(approval) {
                let reason = "there is nowhere to write a policy: start the host with --policy";
                let reply = refused.0.reply;
                drop(reply.send(Err(RequestError::Refused(reason.to_owned()))));
            }
        });
    }
}

/// Follows the plugin folders; `known` is the result of the last scan.
fn follow_files(mut folders: Folders, mut known: Scan, events: Events) -> AbortOnDropHandle<()> {
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
                let _ = events.send(Event::FilesChanged(scan));
            }
        }
    }))
}

/// Follows the policy at `path`; `known` is the one in force. Approvals run in the same task, so that no older policy
/// is sent after an approved one.
fn follow_policy(
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
                Some(Approval { description, narrowing, reply }) = approvals.recv() => {
                    let answer = approve(&path, description, narrowing).await;
                    if answer.is_ok() {
                        send_new(&path, &mut known, &events).await;
                    }
                    let _ = events.send(Event::Answered { answer, reply });
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
        let _ = events.send(Event::PolicyChanged(policy));
    }
}

/// Finds out which kinds of a description are cluster-scoped. The error is a sentence.
async fn narrowing(
    namespaces: BTreeSet<String>,
    description: &Description,
    discovery: &Discovery,
) -> Result<Narrowing, String> {
    let mut cluster_scoped = BTreeSet::new();
    for kind in kinds::of_description(description) {
        let Ok(kind) = kind.parse::<Kind>() else {
            continue;
        };
        match discovery.resolve(&kind).await {
            Ok(resource) if !resource.namespaced => drop(cluster_scoped.insert(kind)),
            // Objects of a kind that is not served yet are taken to have a namespace.
            Ok(_) | Err(DiscoveryError::UnknownKind(_)) => {}
            Err(error) => {
                return Err(format!(
                    "can't find out which kinds have namespaces: {}",
                    error_chain(&error)
                ));
            }
        }
    }
    Ok(Narrowing {
        namespaces,
        cluster_scoped,
    })
}

/// Adds what a plugin asks for to the policy at `path`.
async fn approve(
    path: &Path,
    description: Arc<Description>,
    narrowing: Option<Narrowing>,
) -> Answer {
    let path = path.to_owned();
    let approve = move || approve::approve(&path, &description, narrowing.as_ref());
    match tokio::task::spawn_blocking(approve).await {
        Ok(Ok(sentence)) => Ok(sentence),
        Ok(Err(error)) => Err(RequestError::Refused(error_chain(&error))),
        Err(panicked) => Err(RequestError::Refused(panicked.to_string())),
    }
}
