//! Checks that the elements of a list literal, and the keys and the values of a map literal, have one type. The arguments of
//! `format` need not.
//!
//! cel-go also checks the literals of durations, timestamps and regular expressions after the types. Their values are the
//! same whatever the types of objects are, so the API server has refused an expression with a wrong one.
//!
//! In cel-go: cel/validator.go: homogeneousAggregateLiteralValidator.

use crate::ast::{Expr, Kind};
use crate::source::Issue;
use crate::types::Type;

/// Returns what is wrong. `types` are the types of the nodes by their numbers.
pub(crate) fn check(root: &Expr, types: &[Type]) -> Vec<Issue> {
    let mut lists = Vec::new();
    let mut maps = Vec::new();
    root.each(&mut |node| {
        match &node.kind {
            Kind::Call { function, .. } => return function != "format",
            Kind::List(elements) => {
                let elements = elements.iter().map(|one| (&one.value, one.is_optional));
                lists.extend(differing(elements, types).next());
            }
            Kind::Map(entries) => {
                let keys = entries.iter().map(|entry| (&entry.key, false));
                maps.extend(differing(keys, types));
                let values = entries
                    .iter()
                    .map(|entry| (&entry.value, entry.is_optional));
                maps.extend(differing(values, types));
            }
            _ => {}
        }
        true
    });
    lists.append(&mut maps);
    lists
}

/// Returns the errors about nodes whose type is not that of the first one. An optional one has the type of its value.
fn differing<'n>(
    nodes: impl Iterator<Item = (&'n Expr, bool)>,
    types: &'n [Type],
) -> impl Iterator<Item = Issue> {
    let mut typed = nodes.map(move |(node, is_optional)| {
        let own = &types[node.number];
        let (value, _) = if is_optional {
            own.unwrap_optional()
        } else {
            (own, false)
        };
        (node.position, value)
    });
    let first = typed.next();
    typed.filter_map(move |(position, found)| {
        let (_, expected) = first?;
        (found != expected).then(|| Issue {
            position: Some(position),
            message: format!("expected type '{expected}' but found '{found}'"),
        })
    })
}
