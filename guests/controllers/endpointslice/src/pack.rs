//! Packs the endpoints of one group into slices, with few writes: first into the slices that change anyway, then into
//! one that has just enough room, and then into new ones.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: reconcileByPortMapping.
//! Upstream: staging/src/k8s.io/endpointslice/utils.go: getSliceToFill.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::{Desired, Endpoint, PortKey, Slice};

use crate::changes::{ChangedSlice, NewSlice, Plan};
use crate::endpoints::Group;
use crate::labels::has_other_labels;

/// Groups slices by their ports.
pub fn by_ports(slices: Vec<Slice>) -> BTreeMap<PortKey, Vec<Slice>> {
    let mut groups: BTreeMap<PortKey, Vec<Slice>> = BTreeMap::new();
    for slice in slices {
        let key = PortKey::of(&slice.ports);
        groups.entry(key).or_default().push(slice);
    }
    groups
}

/// Adds the changes of a group and of the slices with its ports to the plan.
pub fn pack(plan: &mut Plan, service: &Service, slices: Vec<Slice>, group: Group, maximum: usize) {
    let mut desired = Desired::of(group.endpoints);
    let positions = desired.positions(&slices);
    let (mut update, mut unchanged) = (Vec::new(), Vec::new());
    for (mut slice, positions) in slices.into_iter().zip(positions) {
        let found: Vec<usize> = positions.iter().copied().flatten().collect();
        let removed = slice.endpoints.len() - found.len();
        let differs = |(endpoint, at): (&Endpoint, &Option<usize>)| {
            at.is_some_and(|at| desired.get(at).differs(endpoint))
        };
        let is_changed = removed > 0 || slice.endpoints.iter().zip(&positions).any(differs);
        let endpoints: Vec<Endpoint> = found.into_iter().map(|at| desired.take(at)).collect();
        let relabel = has_other_labels(&slice, service);
        plan.removed += removed;
        if is_changed && endpoints.is_empty() {
            plan.delete.push(slice);
        } else if is_changed {
            slice.endpoints = endpoints;
            update.push(ChangedSlice {
                slice,
                relabel: true,
            });
        } else if relabel {
            // The endpoints stay as they are, with their hints.
            update.push(ChangedSlice { slice, relabel });
        } else {
            unchanged.push(slice);
        }
    }
    let mut rest = desired.into_rest().into_iter();
    plan.added += rest.len();

    update.sort_by_key(|changed| Reverse(changed.slice.endpoints.len()));
    for ChangedSlice { slice, .. } in &mut update {
        fill(&mut slice.endpoints, &mut rest, maximum);
    }
    while rest.len() > 0 {
        match slice_to_fill(&unchanged, rest.len(), maximum) {
            Some(at) => {
                let mut slice = unchanged.remove(at);
                fill(&mut slice.endpoints, &mut rest, maximum);
                update.push(ChangedSlice {
                    slice,
                    relabel: false,
                });
            }
            None => {
                let mut endpoints = Vec::new();
                fill(&mut endpoints, &mut rest, maximum);
                plan.create.push(NewSlice {
                    ports: group.ports.clone(),
                    endpoints,
                });
            }
        }
    }
    plan.update.append(&mut update);
    plan.unchanged.append(&mut unchanged);
}

/// Moves endpoints into a slice until it is full.
fn fill(slice: &mut Vec<Endpoint>, rest: &mut impl Iterator<Item = Endpoint>, maximum: usize) {
    let room = maximum.saturating_sub(slice.len());
    slice.extend(rest.take(room));
}

/// The slice that this number of endpoints fills most. A full load of endpoints gets a slice of its own.
fn slice_to_fill(slices: &[Slice], added: usize, maximum: usize) -> Option<usize> {
    if added >= maximum {
        return None;
    }
    let room = |slice: &Slice| maximum.checked_sub(slice.endpoints.len() + added);
    (slices.iter().enumerate())
        .filter_map(|(at, slice)| Some((room(slice)?, at)))
        .min()
        .map(|(_, at)| at)
}
