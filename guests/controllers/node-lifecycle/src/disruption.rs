//! The states of zones, and how fast nodes of each may get a `NoExecute` taint: pure functions.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: handleDisruption, ComputeZoneState,
//! setLimiterInZone, HealthyQPSFunc, ReducedQPSFunc.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::zone::Zone;

/// The state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disruption {
    /// The state is not known yet.
    Initial,
    Normal,
    /// Many nodes are not ready.
    Partial,
    /// No node is ready.
    Full,
}

/// The state of a zone, which the memo keeps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneState {
    pub state: Disruption,
    /// Nodes per second that may get a taint.
    pub rate: f64,
}

/// The number of nodes of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub ready: usize,
    pub unready: usize,
}

impl Count {
    pub fn add(&mut self, is_ready: bool) {
        match is_ready {
            true => self.ready += 1,
            false => self.unready += 1,
        }
    }

    pub fn all(self) -> usize {
        self.ready + self.unready
    }

    /// The percentage of nodes that are ready.
    pub fn health(self) -> f64 {
        (100 * self.ready) as f64 / self.all().max(1) as f64
    }

    /// The state of a zone with these nodes.
    pub fn state(self, settings: &Settings) -> Disruption {
        let fraction = self.unready as f64 / self.all().max(1) as f64;
        if self.ready == 0 && self.unready > 0 {
            Disruption::Full
        // The flag has single precision.
        } else if self.unready > 2 && fraction as f32 >= settings.unhealthy as f32 {
            Disruption::Partial
        } else {
            Disruption::Normal
        }
    }
}

/// A change that concerns all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    /// No node is ready any more. The cause is then unlikely to be the nodes themselves, so all `NoExecute` taints for
    /// nodes that are not ready are removed, and none is added.
    Blackout,
    /// Some node is ready again. All nodes count as heard of now.
    Recovery,
}

/// Adds zones that were not known, and returns them.
pub fn add_zones<'a>(
    zones: &mut BTreeMap<Zone, ZoneState>,
    found: impl Iterator<Item = &'a Zone>,
    settings: &Settings,
) -> Vec<Zone> {
    let mut added = Vec::new();
    for zone in found {
        if !zones.contains_key(zone) {
            let state = ZoneState {
                state: Disruption::Initial,
                rate: settings.rate,
            };
            zones.insert(zone.clone(), state);
            added.push(zone.clone());
        }
    }
    added
}

/// Brings the zones to the state that follows from the numbers of their nodes. Zones without nodes are removed.
pub fn update(
    zones: &mut BTreeMap<Zone, ZoneState>,
    counts: &BTreeMap<Zone, Count>,
    settings: &Settings,
) -> Change {
    zones.retain(|zone, _| counts.contains_key(zone));
    let state = |zone: &Zone| counts[zone].state(settings);
    let are_all_disrupted = counts.keys().all(|zone| state(zone) == Disruption::Full);
    let were_all_disrupted = zones.values().all(|zone| zone.state == Disruption::Full);
    match (were_all_disrupted, are_all_disrupted) {
        (true, true) => Change::None,
        (false, true) => {
            for zone in zones.values_mut() {
                *zone = ZoneState {
                    state: Disruption::Full,
                    rate: 0.0,
                };
            }
            Change::Blackout
        }
        (were_all_disrupted, false) => {
            for (zone, known) in zones.iter_mut() {
                let state = state(zone);
                if were_all_disrupted || known.state != state {
                    let rate = rate(state, counts[zone].all(), settings);
                    *known = ZoneState { state, rate };
                }
            }
            match were_all_disrupted {
                true => Change::Recovery,
                false => Change::None,
            }
        }
    }
}

/// Nodes per second of a zone of this size that may get a taint.
fn rate(state: Disruption, nodes: usize, settings: &Settings) -> f64 {
    match state {
        Disruption::Partial if nodes as i64 > settings.large => settings.secondary_rate,
        Disruption::Partial => 0.0,
        Disruption::Initial | Disruption::Normal | Disruption::Full => settings.rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zones by name with the numbers of ready and of other nodes.
    fn counts(zones: &[(&str, usize, usize)]) -> BTreeMap<Zone, Count> {
        let count = |&(name, ready, unready)| (zone(name), Count { ready, unready });
        zones.iter().map(count).collect()
    }

    fn zone(name: &str) -> Zone {
        Zone("r".into(), name.into())
    }

    /// The states and rates after the zones had these numbers, one after another, and the last change.
    fn after(steps: &[&[(&str, usize, usize)]]) -> (Vec<(Disruption, f64)>, Change) {
        let (settings, mut zones) = (Settings::default(), BTreeMap::new());
        let mut change = Change::None;
        for step in steps {
            let counts = counts(step);
            add_zones(&mut zones, counts.keys(), &settings);
            change = update(&mut zones, &counts, &settings);
        }
        let states = zones.values().map(|zone| (zone.state, zone.rate));
        (states.collect(), change)
    }

    #[test]
    fn the_state_follows_from_the_numbers_of_nodes() {
        for (ready, unready, expected) in [
            (1, 0, Disruption::Normal),
            (0, 1, Disruption::Full),
            (0, 0, Disruption::Normal),
            // Fewer than three.
            (1, 2, Disruption::Normal),
            (1, 3, Disruption::Partial),
            (9, 11, Disruption::Partial),
            (46, 54, Disruption::Normal),
            (45, 55, Disruption::Partial),
        ] {
            let count = Count { ready, unready };
            assert_eq!(count.state(&Settings::default()), expected, "{count:?}");
        }
        assert_eq!(
            Count {
                ready: 1,
                unready: 3
            }
            .health(),
            25.0
        );
        assert_eq!(Count::default().health(), 0.0);
    }

    #[test]
    fn a_zone_that_is_normal_has_the_first_rate() {
        let expected = (vec![(Disruption::Normal, 0.1)], Change::None);
        assert_eq!(after(&[&[("a", 5, 1)]]), expected);
    }

    #[test]
    fn a_disrupted_zone_has_the_second_rate_if_it_is_large_and_else_none() {
        for (ready, unready, rate) in [(1, 3, 0.0), (20, 30, 0.0), (20, 31, 0.01)] {
            let (states, _) = after(&[&[("a", 9, 0)], &[("a", ready, unready)]]);
            assert_eq!(states, [(Disruption::Partial, rate)]);
        }
    }

    #[test]
    fn a_zone_without_ready_nodes_has_the_first_rate_while_another_has_some() {
        let (states, change) = after(&[&[("a", 3, 0), ("b", 3, 0)], &[("a", 0, 3), ("b", 3, 0)]]);
        assert_eq!(states, [(Disruption::Full, 0.1), (Disruption::Normal, 0.1)]);
        assert_eq!(change, Change::None);
    }

    #[test]
    fn no_zone_has_a_rate_when_no_node_is_ready() {
        let healthy: &[_] = &[("a", 3, 0), ("b", 3, 0)];
        let dark: &[_] = &[("a", 0, 3), ("b", 0, 3)];
        let states = vec![(Disruption::Full, 0.0), (Disruption::Full, 0.0)];
        assert_eq!(after(&[healthy, dark]), (states.clone(), Change::Blackout));
        assert_eq!(after(&[healthy, dark, dark]), (states, Change::None));
    }

    #[test]
    fn all_rates_return_when_a_node_is_ready_again() {
        let dark: &[_] = &[("a", 0, 4), ("b", 0, 4)];
        let (states, change) = after(&[dark, &[("a", 1, 3), ("b", 0, 4)]]);
        assert_eq!(
            states,
            [(Disruption::Partial, 0.0), (Disruption::Full, 0.1)]
        );
        assert_eq!(change, Change::Recovery);
    }

    #[test]
    fn a_cluster_that_is_found_dark_has_no_rate() {
        let (states, change) = after(&[&[("a", 0, 1)]]);
        assert_eq!(
            (states, change),
            (vec![(Disruption::Full, 0.0)], Change::Blackout)
        );
    }

    #[test]
    fn a_zone_that_is_added_to_a_dark_cluster_ends_its_darkness_only_for_itself() {
        let dark: &[_] = &[("a", 0, 3)];
        let (states, change) = after(&[dark, &[("a", 0, 3), ("b", 1, 0)]]);
        assert_eq!(states, [(Disruption::Full, 0.0), (Disruption::Normal, 0.1)]);
        assert_eq!(change, Change::None);
    }

    #[test]
    fn zones_without_nodes_are_forgotten() {
        let (states, change) = after(&[&[("a", 3, 0), ("b", 0, 1)], &[("b", 0, 1)]]);
        assert_eq!(
            (states, change),
            (vec![(Disruption::Full, 0.1)], Change::None)
        );
        assert_eq!(after(&[&[("a", 3, 0)], &[]]), (vec![], Change::None));
    }
}
