//! The pods to create and to delete.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::views::Pod;

/// The pods to create and to delete in a step.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    /// The nodes that need a pod.
    pub create: Vec<&'a str>,
    pub delete: Vec<&'a Pod>,
    /// The events to emit.
    pub notes: Vec<Note>,
    /// When the DaemonSet is due again, even if nothing changes.
    pub requeue_after: Option<Duration>,
}

/// An event about the DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Plan<'_> {
    /// Whether no pod has to be created or deleted.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

impl Note {
    pub fn emit(&self, host: &Host, about: &flyball_sdk::ObjectReference) {
        host.emit(match self.is_warning {
            true => Event::warning(about, self.reason, &self.message),
            false => Event::normal(about, self.reason, &self.message),
        });
    }
}
