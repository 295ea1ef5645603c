//! Mutations of inputs that know the formats: they insert the target's tokens and parts of other inputs, repeat parts,
//! which nests deeply, and change JSON as a tree, so that most results are valid JSON.
//!
//! They are a strategy of proptest, so that a test shrinks those of a failing input. libFuzzer adds its own ones.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value};

/// The maximum length of an input in bytes.
const MAX_LENGTH: usize = 4096;
/// The maximum length of an input with a long repetition, in bytes.
const MAX_LONG_LENGTH: usize = 1 << 18;
/// Bytes with a meaning in one of the formats, and boundary values.
const EDGES: &[u8] = b"\0\x01\x7f\x80\xff\"'\\/[]{}(),.:=!*#~%\n\r\t -+0195eE";

/// A change of an input.
#[derive(Clone, Debug)]
pub(crate) enum Mutation {
    /// Replaces at most this many bytes by others.
    Replace(Index, usize, Vec<u8>),
    /// Repeats at most this many bytes.
    Repeat(Index, usize, usize),
    /// Changes a value of JSON with the help of another one.
    Tree(Index, Change, Value),
}

/// A change of a value of JSON.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Replace,
    /// Adds the other value to a list, or its fields to an object.
    Add(Index),
    Remove(Index),
    /// Repeats an item of a list, perhaps beyond a limit of lists.
    Repeat(Index, usize),
}

/// Mutates one of the known inputs.
pub(crate) fn inputs(known: Vec<Vec<u8>>, tokens: Vec<&'static str>) -> BoxedStrategy<Vec<u8>> {
    let input = match known.is_empty() {
        true => Just(Vec::new()).boxed(),
        false => select(known.clone()).boxed(),
    };
    let mutations = mutations(known, tokens);
    (input, mutations)
        .prop_map(|(input, mutations)| apply(input, &mutations))
        .boxed()
}

/// A few mutations with these tokens and with parts of these inputs.
pub(crate) fn mutations(
    known: Vec<Vec<u8>>,
    tokens: Vec<&'static str>,
) -> BoxedStrategy<Vec<Mutation>> {
    let trees: Vec<Value> = known.iter().filter_map(|input| tree(input)).collect();
    let edge = vec(prop_oneof![3 => select(EDGES), 1 => any::<u8>()], 0..3).boxed();
    let mut bytes = vec![edge];
    let mut values = vec![Just(Value::Object(Map::new())).boxed()];
    if !tokens.is_empty() {
        bytes.push(
            select(tokens.clone())
                .prop_map(|token| token.as_bytes().to_vec())
                .boxed(),
        );
        values.push(select(tokens).prop_map(value_of).boxed());
    }
    if !known.is_empty() {
        let part = (select(known), any::<Index>(), 1..64_usize);
        bytes.push(
            part.prop_map(|(input, at, most)| input[range(&input, at, most)].to_vec())
                .boxed(),
        );
    }
    if !trees.is_empty() {
        let part = (select(trees), any::<Index>());
        values.push(
            part.prop_map(|(mut tree, at)| {
                let mut at = at.index(count(&tree));
                nth(&mut tree, &mut at).map(Value::take).unwrap_or_default()
            })
            .boxed(),
        );
    }
    let index = any::<Index>;
    let change = prop_oneof![
        Just(Change::Replace),
        index().prop_map(Change::Add),
        index().prop_map(Change::Remove),
        (index(), prop_oneof![7 => 1..3_usize, 1 => 1..300_usize])
            .prop_map(|(at, times)| Change::Repeat(at, times)),
    ];
    let long = option::weighted(0.01, Just(MAX_LONG_LENGTH));
    let mutation = prop_oneof![
        4 => (index(), 0..64_usize, proptest::strategy::Union::new(bytes))
            .prop_map(|(at, most, new)| Mutation::Replace(at, most, new)),
        1 => (index(), 1..64_usize, 1..256_usize, long)
            .prop_map(|(at, most, more, long)| Mutation::Repeat(at, most, long.unwrap_or(more))),
        5 => (index(), change, proptest::strategy::Union::new(values))
            .prop_map(|(at, change, value)| Mutation::Tree(at, change, value)),
    ];
    vec(mutation, 0..6).boxed()
}

/// Returns the mutated input.
pub(crate) fn apply(mut input: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    let mut limit = MAX_LENGTH;
    for mutation in mutations {
        match mutation {
            Mutation::Replace(at, most, new) => {
                let range = range(&input, *at, *most);
                input.splice(range, new.iter().copied());
            }
            Mutation::Repeat(at, most, more) => {
                let range = range(&input, *at, *most);
                if !range.is_empty() {
                    let part = input[range.clone()].repeat(1 + more / range.len());
                    input.splice(range, part);
                }
                limit = limit.max(*more);
            }
            Mutation::Tree(at, how, value) => {
                if let Some(mut tree) = tree(&input) {
                    let mut at = at.index(count(&tree));
                    let place = nth(&mut tree, &mut at).expect("there are so many values");
                    change(place, how, value.clone());
                    input = tree.to_string().into_bytes();
                }
            }
        }
    }
    input.truncate(limit);
    input
}

/// A range of at most this many bytes.
fn range(input: &[u8], at: Index, most: usize) -> std::ops::Range<usize> {
    let start = at.index(input.len() + 1);
    start..input.len().min(start + most)
}

/// An input as JSON; none if it is not an object or a list.
fn tree(input: &[u8]) -> Option<Value> {
    let is_tree = |value: &Value| value.is_object() || value.is_array();
    serde_json::from_slice(input).ok().filter(is_tree)
}

/// A token as a value: as it stands, as the field of an object, or as a string.
fn value_of(token: &str) -> Value {
    let field = || {
        let name: String = serde_json::from_str(token.strip_suffix(':')?).ok()?;
        Some(Value::Object(Map::from_iter([(name, Value::Null)])))
    };
    let value = serde_json::from_str(token).ok().or_else(field);
    value.unwrap_or_else(|| token.into())
}

fn change(place: &mut Value, how: &Change, value: Value) {
    match (how, place) {
        (Change::Add(_), Value::Object(fields)) => match value {
            Value::Object(more) => fields.extend(more),
            other => {
                drop(fields.insert(other.as_str().unwrap_or_default().to_owned(), Value::Null))
            }
        },
        (Change::Add(at), Value::Array(items)) => items.insert(at.index(items.len() + 1), value),
        (Change::Remove(at), Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(at.index(fields.len())).cloned();
            name.map(|name| fields.remove(&name));
        }
        (Change::Remove(at), Value::Array(items)) if !items.is_empty() => {
            drop(items.remove(at.index(items.len())));
        }
        (Change::Repeat(at, times), Value::Array(items)) if !items.is_empty() => {
            let item = items[at.index(items.len())].clone();
            items.resize(items.len() + times, item);
        }
        (_, place) => *place = value,
    }
}

/// The number of values in a tree, itself included.
fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with this number in depth-first order. `at` is counted down.
fn nth<'a>(tree: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(tree);
    }
    *at -= 1;
    match tree {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|value| nth(value, at)),
        _ => None,
    }
}
