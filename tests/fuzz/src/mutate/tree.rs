//! Mutates JSON as a tree, so that most results are valid JSON: replaces, removes, repeats and
//! inserts values.

use serde_json::{Map, Value};

use super::Mutator;

/// A mutation of an input; `None` if the input is not a JSON object or list.
pub(super) fn mutate(
    mutator: &mut Mutator,
    input: &[u8],
    known: &[Vec<u8>],
    tokens: &[&str],
) -> Option<Vec<u8>> {
    let mut tree = parse(input)?;
    for _ in 0..=mutator.below(2) {
        let value = random_value(mutator, &tree, known, tokens);
        let at = mutator.below(count(&tree));
        change(mutator, nth(&mut tree, &mut at.clone())?, value);
    }
    Some(tree.to_string().into_bytes())
}

fn parse(input: &[u8]) -> Option<Value> {
    let is_tree = |value: &Value| value.is_object() || value.is_array();
    serde_json::from_slice(input).ok().filter(is_tree)
}

/// A token, a part of another input, or a part of this one.
fn random_value(mutator: &mut Mutator, tree: &Value, known: &[Vec<u8>], tokens: &[&str]) -> Value {
    let (own, other) = (
        tree.clone(),
        mutator.pick(known).and_then(|input| parse(input)),
    );
    let from = match mutator.below(4) {
        0 => return own_part(mutator, own),
        1 => other,
        _ => None,
    };
    match from {
        Some(other) => own_part(mutator, other),
        None => token(mutator, tokens),
    }
}

fn own_part(mutator: &mut Mutator, mut tree: Value) -> Value {
    let mut at = mutator.below(count(&tree));
    nth(&mut tree, &mut at).map(Value::take).unwrap_or_default()
}

/// A token as a value: as it stands, as a string, or as the field of an object.
fn token(mutator: &mut Mutator, tokens: &[&str]) -> Value {
    let text = mutator.pick(tokens).copied().unwrap_or("{}");
    let field = || {
        let name: String = serde_json::from_str(text.strip_suffix(':')?).ok()?;
        Some(Value::Object(Map::from_iter([(name, Value::Null)])))
    };
    serde_json::from_str(text)
        .ok()
        .or_else(field)
        .unwrap_or_else(|| text.into())
}

/// Changes a value with the help of another one.
fn change(mutator: &mut Mutator, place: &mut Value, value: Value) {
    match (mutator.below(3), place, value) {
        (0, Value::Object(fields), Value::Object(more)) => fields.extend(more),
        (0, Value::Array(items), value) => {
            let at = mutator.below(items.len() + 1);
            items.insert(at, value);
        }
        (1, Value::Object(fields), _) if !fields.is_empty() => {
            let name = fields.keys().nth(mutator.below(fields.len())).cloned();
            name.map(|name| fields.remove(&name));
        }
        (1, Value::Array(items), _) if !items.is_empty() => {
            let at = mutator.below(items.len());
            // Now and then many times, to reach the limits of lists.
            match mutator.below(16) {
                0 => {
                    let item = items[at].clone();
                    items.resize(items.len() + mutator.below(300), item);
                }
                1..8 => items.push(items[at].clone()),
                _ => drop(items.remove(at)),
            }
        }
        (_, place, value) => *place = value,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_mutations_of_json_are_other_json() {
        let input = br#"{"a": [1, {"b": "c"}], "d": {}}"#.to_vec();
        let mut mutator = Mutator::new(1);
        let known = [input.clone()];
        let mut results = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mutated = mutate(&mut mutator, &input, &known, &["{\"e\":1}", "\"f\":", "g"])
                .expect("the input is JSON");
            serde_json::from_slice::<Value>(&mutated).expect("the result is JSON");
            results.insert(mutated);
        }
        assert!(results.len() > 300, "{}", results.len());
        assert_eq!(mutate(&mut mutator, b"text", &known, &[]), None);
    }
}
