//! The kinds whose objects a quota can count, as discovered.
//!
//! Upstream: pkg/controller/resourcequota/resource_quota_controller.go: GetQuotableResources.
//! Upstream: pkg/quota/v1/install/registry.go: DefaultIgnoredResources.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::Kind;
use flyball_sdk::discovery::Catalogue;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The verbs that a kind must support. The last two are needed for a cache of its objects.
pub const VERBS: [&str; 4] = ["create", "delete", "list", "watch"];
/// Kinds that are not counted: events expire by themselves.
pub const EXCEPT: [&str; 2] = ["v1/Event", "events.k8s.io/v1/Event"];
/// The memo's key.
const MEMO: &str = "kinds";

/// The kinds that the API server serves, by the name that limits have for them, such as
/// `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds {
    kinds: BTreeMap<String, String>,
    /// The groups whose kinds are not all known.
    unknown: BTreeSet<String>,
    /// When they were discovered.
    at: i64,
}

impl Kinds {
    /// Returns the kinds that were discovered within the last period. If discovery fails, older ones
    /// are good enough.
    ///
    /// # Errors
    /// Discovery failed, and never succeeded before.
    pub fn read(host: &Host, period: Duration) -> Result<Self, Error> {
        let now = host.now();
        let known: Option<Self> = host.memo().get(MEMO);
        let is_recent = |kinds: &Self| now.since(Time::of_seconds(kinds.at)) < period;
        if let Some(recent) = known.as_ref().filter(|known| is_recent(known)) {
            return Ok(recent.clone());
        }
        match (host.kinds(), known) {
            (Ok(found), _) => {
                let kinds = Self::of(&found, now);
                // An error means that another instance has put its own result, or that the memo is full.
                let _ = host.memo().put(MEMO, &kinds, "", Duration::ZERO);
                Ok(kinds)
            }
            (Err(_), Some(older)) => Ok(older),
            (Err(error), None) => Err(error),
        }
    }

    /// The kinds of a result of discovery that can be counted.
    fn of(found: &Catalogue, now: Time) -> Self {
        let mut kinds = Self {
            at: now.seconds,
            ..Self::default()
        };
        for failure in &found.failures {
            let (group, _) = failure.group_version.split_once('/').unwrap_or_default();
            kinds.unknown.insert(group.into());
        }
        let mut seen = BTreeSet::new();
        for served in &found.kinds {
            let Ok(kind) = served.kind.parse::<Kind>() else {
                continue;
            };
            let resource = resource(&served.plural, &kind.group);
            // The preferred version comes first. A kind that can't be counted in that version is not
            // counted in another.
            if seen.insert(resource.clone())
                && served.namespaced
                && VERBS.iter().all(|verb| served.has_verb(verb))
                && !is_excepted(&kind)
            {
                kinds.kinds.insert(resource, served.kind.clone());
            }
        }
        kinds
    }

    /// The kind that a limit names, such as `apps/v1/Deployment`.
    pub fn kind(&self, resource: &str) -> Option<&str> {
        self.kinds.get(resource).map(String::as_str)
    }

    /// The name that limits have for a kind in any version.
    pub fn resource(&self, kind: &Kind) -> Option<&str> {
        let is_it = |own: &str| {
            own.parse::<Kind>()
                .is_ok_and(|own| (&own.group, &own.kind) == (&kind.group, &kind.kind))
        };
        let mut kinds = self.kinds.iter();
        kinds
            .find(|(_, own)| is_it(own))
            .map(|(resource, _)| resource.as_str())
    }

    /// Whether a kind is certainly not served.
    pub fn lack(&self, resource: &str) -> bool {
        let (_, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.kind(resource).is_none() && !self.unknown.contains(group)
    }
}

/// The name of a resource in a group: `deployments.apps`, or `pods` in the core group.
fn resource(plural: &str, group: &str) -> String {
    match group {
        "" => plural.into(),
        group => format!("{plural}.{group}"),
    }
}

fn is_excepted(kind: &Kind) -> bool {
    EXCEPT.iter().any(|except| {
        except
            .parse::<Kind>()
            .is_ok_and(|except| (&except.group, &except.kind) == (&kind.group, &kind.kind))
    })
}
