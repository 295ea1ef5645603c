//! The debug page of the graph of owners in a plugin's caches, in DOT, the language of Graphviz.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use flyball_cache::{Object, Uid};
use flyball_reads::cached::CachedReads;
use flyball_reads::lookup::{Lookup, reference};
use flyball_serving::debug::Page;
use flyball_types::Reference;

use crate::router::named_owner;

/// The finalizer that delays a deletion until the dependents are deleted.
const FOREGROUND: &str = "foregroundDeletion";

/// An object in the graph.
struct Vertex {
    named: Reference,
    is_deleting: bool,
    waits_for_dependents: bool,
    /// Whether only its dependents are cached.
    is_virtual: bool,
}

/// Returns the whole graph, or the part that is connected to the objects whose UIDs the query names as `uid`.
pub fn page(reads: &CachedReads, query: &[(String, String)]) -> Page {
    let asked: Vec<Uid> = query
        .iter()
        .filter(|(key, _)| key == "uid")
        .map(|(_, uid)| Uid::new(uid))
        .collect();
    let objects = if asked.is_empty() {
        all(reads)
    } else {
        connected(reads, asked)
    };
    let mut vertices: BTreeMap<String, Vertex> = BTreeMap::new();
    let mut edges = BTreeSet::new();
    for (named, object) in &objects {
        let waits_for_dependents = object.is_deleting() && object.has_finalizer(FOREGROUND);
        let vertex = Vertex {
            named: named.clone(),
            is_deleting: object.is_deleting(),
            waits_for_dependents,
            is_virtual: false,
        };
        vertices.insert(named.uid.clone(), vertex);
    }
    for (named, object) in &objects {
        for owner in object.owners() {
            let owner = named_owner(object, owner, reads);
            edges.insert((named.uid.clone(), owner.uid.clone()));
            vertices.entry(owner.uid.clone()).or_insert_with(|| Vertex {
                named: owner,
                is_deleting: false,
                waits_for_dependents: false,
                is_virtual: true,
            });
        }
    }
    Page {
        content_type: "text/vnd.graphviz",
        body: dot(&vertices, &edges),
    }
}

/// Returns all objects that have owners or dependents.
fn all(reads: &CachedReads) -> Vec<(Reference, Arc<Object>)> {
    let mut found = Vec::new();
    let mut owners = BTreeSet::new();
    reads.each(|kind, object| {
        owners.extend(object.owners().iter().map(|owner| owner.uid.clone()));
        found.push((reference(kind, object), object.clone()));
    });
    found.retain(|(_, object)| !object.owners().is_empty() || owners.contains(object.uid()));
    found
}

/// Returns the objects that can be reached from these by owners and dependents.
fn connected(reads: &CachedReads, mut ahead: Vec<Uid>) -> Vec<(Reference, Arc<Object>)> {
    let mut visited = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(uid) = ahead.pop() {
        if !visited.insert(uid.clone()) {
            continue;
        }
        ahead.extend(
            reads
                .dependents(&uid)
                .iter()
                .map(|dependent| Uid::new(&dependent.uid)),
        );
        if let Some((kind, object)) = reads.by_uid(&uid) {
            ahead.extend(object.owners().iter().map(|owner| owner.uid.clone()));
            found.push((reference(&kind, &object), object));
        }
    }
    found
}

fn dot(vertices: &BTreeMap<String, Vertex>, edges: &BTreeSet<(String, String)>) -> String {
    let mut dot = String::from("strict digraph full {\n");
    for (uid, vertex) in vertices {
        let Reference {
            kind,
            namespace,
            name,
            ..
        } = &vertex.named;
        let group = if kind.group.is_empty() {
            String::new()
        } else {
            format!(".{}", kind.group)
        };
        let states = [
            ("beingDeleted", vertex.is_deleting),
            ("deletingDependents", vertex.waits_for_dependents),
            ("virtual", vertex.is_virtual),
        ];
        let holding: Vec<&str> = states
            .iter()
            .filter(|(_, holds)| *holds)
            .map(|(state, _)| *state)
            .collect();
        let holding = if holding.is_empty() {
            String::new()
        } else {
            format!("{}\n", holding.join(","))
        };
        let label = format!(
            "uid={uid}\nnamespace={namespace}\n{}.{}{group}/{name}\n{holding}",
            kind.kind, kind.version
        );
        let _ = writeln!(dot, "  {uid:?} [\n    label={label:?}");
        for (key, value) in [
            ("group", kind.group.as_str()),
            ("version", &kind.version),
            ("kind", &kind.kind),
            ("namespace", namespace),
            ("name", name),
            ("uid", uid),
        ] {
            let _ = writeln!(dot, "    {key}={value:?}");
        }
        for (state, holds) in states {
            let _ = writeln!(dot, "    {state}=\"{holds}\"");
        }
        dot.push_str("  ];\n");
    }
    for (dependent, owner) in edges {
        let _ = writeln!(dot, "  {dependent:?} -> {owner:?};");
    }
    dot.push_str("}\n");
    dot
}
