//! Zones: the groups of nodes that fail together.
//!
//! Upstream: staging/src/k8s.io/component-helpers/node/topology/helpers.go: GetZoneKey.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::views::Health;

/// A region and a zone; both are empty for nodes without labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Zone(pub String, pub String);

impl Zone {
    /// The zone of a node. The older labels take precedence: old objects may have only those
    /// (kubernetes/kubernetes#88493).
    pub fn of(node: &Health) -> Self {
        let first = |old: &Option<String>, new: &Option<String>| {
            old.as_ref().or(new.as_ref()).cloned().unwrap_or_default()
        };
        Self(
            first(&node.old_region, &node.region),
            first(&node.old_zone, &node.zone),
        )
    }

    /// Parses a key.
    pub fn parse(key: &str) -> Self {
        let (region, zone) = key.split_once(':').unwrap_or(("", key));
        Self(region.into(), zone.into())
    }

    /// The value of the label `zone` of metrics, as kube-controller-manager writes it.
    pub fn label(&self) -> String {
        match (self.0.as_str(), self.1.as_str()) {
            ("", "") => String::new(),
            (region, zone) => format!("{region}:\0:{zone}"),
        }
    }
}

/// `region:zone`, a key. Values of labels have no colon.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_labels_take_precedence_even_if_they_are_empty() {
        let text = |text: &str| Some(text.to_owned());
        let node = Health {
            old_region: text("r1"),
            region: text("r2"),
            zone: text("z2"),
            ..Health::default()
        };
        assert_eq!(Zone::of(&node), Zone("r1".into(), "z2".into()));
        let node = Health {
            old_zone: text(""),
            ..node
        };
        assert_eq!(Zone::of(&node), Zone("r1".into(), String::new()));
        assert_eq!(Zone::of(&Health::default()), Zone::default());
    }

    #[test]
    fn a_zone_is_parsed_from_its_key() {
        for zone in [
            Zone::default(),
            Zone("r".into(), "z".into()),
            Zone("r".into(), String::new()),
            Zone(String::new(), "z".into()),
        ] {
            assert_eq!(Zone::parse(&zone.to_string()), zone);
        }
    }

    #[test]
    fn the_label_of_metrics_is_that_of_kube_controller_manager() {
        assert_eq!(Zone::default().label(), "");
        assert_eq!(Zone("r".into(), "z".into()).label(), "r:\0:z");
        assert_eq!(Zone(String::new(), "z".into()).label(), ":\0:z");
    }
}
