//! What the controller remembers of a Service between two reconciles, in the memo: the Service as it was last reconciled,
//! and the nodes that the cloud was last given for it. A reconcile's memory is seen by others once it has ended.
//!
//! A Service with the finalizer can't vanish. Only a Service that lost the finalizer, or never got it, needs its memory:
//! its load balancer is deleted by what is remembered. After a takeover the memory begins with the Services that exist,
//! since all of them are reconciled.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::service::Service;

/// The memory of one Service.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    host: &'a Host<'a>,
    key: &'a Key,
}

impl<'a> Memory<'a> {
    pub(crate) fn of(host: &'a Host<'a>, key: &'a Key) -> Self {
        Self { host, key }
    }

    /// Returns the Service as it was last reconciled.
    pub(crate) fn service(&self) -> Option<Service> {
        self.host.memo().get(&self.service_key())
    }

    /// Remembers a Service.
    ///
    /// # Errors
    /// The memo is full.
    pub(crate) fn keep_service(&self, service: &Service) -> Result<(), Error> {
        self.keep(&self.service_key(), service)
    }

    /// Returns the digest of the nodes that the cloud was last given; `None` if it was given none.
    pub(crate) fn nodes(&self) -> Option<u64> {
        self.host.memo().get(&self.nodes_key())
    }

    /// Remembers which nodes the cloud is given.
    ///
    /// # Errors
    /// The memo is full.
    pub(crate) fn keep_nodes(&self, digest: u64) -> Result<(), Error> {
        self.keep(&self.nodes_key(), &digest)
    }

    pub(crate) fn forget(&self) {
        self.host.memo().remove(&self.service_key());
        self.host.memo().remove(&self.nodes_key());
    }

    fn keep(&self, key: &str, value: &impl serde::Serialize) -> Result<(), Error> {
        match self.host.memo().put(key, value, "", Duration::ZERO) {
            // Another reconcile of the same Service has just stored the same kind of value.
            Err(error) if !error.is_conflict() => {
                Err(error).doing(|| format!("remembering the Service {}", self.key))
            }
            _ => Ok(()),
        }
    }

    fn service_key(&self) -> String {
        format!("service/{}", self.key)
    }

    fn nodes_key(&self) -> String {
        format!("nodes/{}", self.key)
    }
}
