//! The hints of a Service's endpoints, and the events about them.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: reconcileByAddressType, validTrafficDistribution.
//! Upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go: AddHints, RemoveHints, HasPopulatedHints.

use flyball_sdk::prelude::*;
use flyball_service_endpoints::ip::Family;
use flyball_service_endpoints::service::Service;

use crate::changes::Plan;
use crate::overload;
use crate::traffic::{self, PREFER_SAME};
use crate::zones::{self, Ratios};

/// Hints the endpoints of one Service. The memo holds whether the Service has hints by zone, for the events.
pub struct Hinter<'a> {
    host: &'a Host<'a>,
    service: &'a Service,
    distribution: Option<&'a str>,
    /// Whether the Service has hints by zone.
    hinted: bool,
    was_hinted: bool,
    /// The ratios of zones, read when they are needed.
    ratios: Option<Option<Ratios>>,
}

/// An event to emit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    is_warning: bool,
    reason: &'static str,
    message: String,
}

impl Note {
    fn disabled(message: &str, family: Family) -> Self {
        Self {
            is_warning: true,
            reason: "TopologyAwareHintsDisabled",
            message: format!("{message}, addressType: {}", family.as_str()),
        }
    }

    fn enabled(family: Family) -> Self {
        Self {
            is_warning: false,
            reason: "TopologyAwareHintsEnabled",
            message: format!(
                "Topology Aware Hints has been enabled, addressType: {}",
                family.as_str()
            ),
        }
    }
}

impl<'a> Hinter<'a> {
    pub fn of(host: &'a Host<'a>, service: &'a Service) -> Self {
        let hinted = host.memo().get(&memo_key(service)).unwrap_or(false);
        Self {
            host,
            service,
            distribution: traffic::distribution(service, host.feature_enabled(PREFER_SAME)),
            hinted,
            was_hinted: hinted,
            ratios: None,
        }
    }

    /// Hints the endpoints of a plan. Returns the events to emit after it was carried out.
    ///
    /// # Errors
    /// The nodes can't be read.
    pub fn hint(&mut self, plan: &mut Plan, family: Family) -> Result<Vec<Note>, Error> {
        if self.service.wants_zone_hints() {
            return self.hint_zones(plan, family);
        }
        let notes = match self.hinted {
            true => vec![Note::disabled(
                "Topology Aware Hints has been disabled",
                family,
            )],
            false => Vec::new(),
        };
        self.hinted = false;
        match self.distribution {
            Some(distribution) => traffic::hint(plan, distribution),
            None => traffic::remove(plan),
        }
        Ok(notes)
    }

    fn hint_zones(&mut self, plan: &mut Plan, family: Family) -> Result<Vec<Note>, Error> {
        if self.ratios.is_none() {
            self.ratios = Some(overload::ratios(self.host)?);
        }
        let ratios = self.ratios.as_ref().and_then(Option::as_ref);
        let notes = match zones::assign(plan, ratios) {
            Ok(()) if self.hinted => Vec::new(),
            Ok(()) => vec![Note::enabled(family)],
            Err(reason) => {
                self.hinted = false;
                return Ok(vec![Note::disabled(&reason, family)]);
            }
        };
        self.hinted = true;
        Ok(notes)
    }

    /// The traffic distribution that the hints are for, if there is one.
    pub fn distribution(&self) -> Option<&'a str> {
        self.distribution
    }

    /// The values of the labels of the metric of changed slices.
    pub fn labels(&self) -> [&'a str; 2] {
        let topology = match self.service.wants_zone_hints() {
            true => "Auto",
            false => "Disabled",
        };
        [topology, self.distribution.unwrap_or_default()]
    }

    pub fn emit(&self, notes: &[Note]) {
        let about = self.service.meta.reference(Service::KIND);
        for note in notes {
            self.host.emit(match note.is_warning {
                true => Event::warning(&about, note.reason, &note.message),
                false => Event::normal(&about, note.reason, &note.message),
            });
        }
    }

    /// Remembers whether the Service has hints by zone. If the memo is full, an event is emitted again.
    pub fn remember(&self) {
        let key = memo_key(self.service);
        if self.hinted && !self.was_hinted {
            let uid = &self.service.meta.uid;
            let _ = (self.host.memo()).put(&key, &true, uid, std::time::Duration::ZERO);
        } else if !self.hinted && self.was_hinted {
            self.host.memo().remove(&key);
        }
    }
}

fn memo_key(service: &Service) -> String {
    format!("hinted/{}", service.meta.uid)
}
