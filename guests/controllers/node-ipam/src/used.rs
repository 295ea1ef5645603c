//! The used blocks: a function of the nodes and of the ranges of Services.
//!
//! Upstream: pkg/controller/nodeipam/ipam/range_allocator.go: occupyCIDRs, filterOutServiceRange.
//! Upstream: pkg/controller/nodeipam/ipam/cidr_allocator.go: listNodes.
//! Upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go: Occupy.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::blocks::Blocks;
use crate::settings::{Settings, range};
use crate::views::{Ranges, Row};

/// The memo's key of the ranges that only the API server knew at the start.
const UNSEEN: &str = "unseen";
/// The memo's key that says that the nodes were read from the API server.
const LISTED: &str = "listed";
/// After this time, the cache certainly has the objects that were read from the API server.
const CATCH_UP: Duration = Duration::from_secs(30 * 60);

/// The used blocks of each set.
#[derive(Clone, Debug, PartialEq)]
pub struct Used(pub Vec<Blocks>);

impl Used {
    /// The blocks with addresses of Services or of these nodes.
    pub fn of(settings: &Settings, nodes: &[Row]) -> Self {
        let mut used = Self(vec![Blocks::default(); settings.sets.len()]);
        for services in &settings.services {
            used.occupy(settings, services);
        }
        for node in nodes {
            used.add(settings, &node.pod_cidrs);
        }
        used
    }

    /// Adds the blocks of a node. The position of a range in the list doesn't matter. Ranges outside of the cluster's
    /// ranges are ignored.
    fn add(&mut self, settings: &Settings, pod_cidrs: &[String]) {
        for range in pod_cidrs.iter().filter_map(|text| range(text)) {
            self.occupy(settings, &range);
        }
    }

    fn occupy(&mut self, settings: &Settings, range: &ipnet::IpNet) {
        for (set, blocks) in settings.sets.iter().zip(&mut self.0) {
            if let Ok(found) = set.blocks_of(range) {
                blocks.insert(found);
            }
        }
    }
}

/// Returns the blocks that are used by nodes or Services. Before the first time, the nodes are read from the API
/// server: the cache of a process that has just become the leader may lack what the last leader wrote.
///
/// # Errors
/// The nodes can't be read.
pub fn used(host: &Host, settings: &Settings) -> Result<Used, Error> {
    let cached = host.list::<Row>().all()?;
    let mut used = Used::of(settings, &cached);
    for ranges in unseen(host, &cached)? {
        used.add(settings, &ranges.pod_cidrs);
    }
    Ok(used)
}

fn unseen(host: &Host, cached: &[Row]) -> Result<Vec<Ranges>, Error> {
    let memo = host.memo();
    if memo.get::<bool>(LISTED).is_some() {
        return Ok(memo.get(UNSEEN).unwrap_or_default());
    }
    let known: BTreeMap<&str, &Row> = cached
        .iter()
        .map(|node| (node.uid.as_str(), node))
        .collect();
    let mut unseen = Vec::new();
    let reading = host.live().each(Row::KIND, "", Row::FIELDS, |node: Row| {
        let seen = known.get(node.uid.as_str());
        if !node.pod_cidrs.is_empty() && seen.is_none_or(|seen| seen.pod_cidrs != node.pod_cidrs) {
            let Row { uid, pod_cidrs, .. } = node;
            unseen.push(Ranges { uid, pod_cidrs });
        }
        Ok(())
    });
    reading.doing(|| "reading all nodes".to_owned())?;
    memo.put(UNSEEN, &unseen, "", CATCH_UP)?;
    memo.put(LISTED, &true, "", Duration::ZERO)?;
    Ok(unseen)
}

/// Checks the ranges of a node.
///
/// # Errors
/// One isn't a range of the cluster.
pub fn check(settings: &Settings, node: &str, pod_cidrs: &[String]) -> Result<(), Error> {
    for (index, text) in pod_cidrs.iter().enumerate() {
        let Some(range) = range(text) else {
            let message =
                format!("node {node} has `{text}` in spec.podCIDRs, which is not a range");
            return Err(Error::terminal(message));
        };
        let Some(set) = settings.sets.get(index) else {
            return Err(Error::terminal(format!(
                "node {node} has more ranges than the cluster: {range}"
            )));
        };
        set.blocks_of(&range)
            .doing(|| format!("range {} of node {node}", index + 1))?;
    }
    Ok(())
}
