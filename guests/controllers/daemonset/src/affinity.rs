//! The required node affinity of a pod, as the scheduler reads it.
//!
//! Upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go:
//! GetRequiredNodeAffinity, newNodeSelectorTerm, nodeSelectorRequirementsAsSelector,
//! nodeSelectorRequirementsAsFieldSelector, NewLazyErrorNodeSelector.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::{Operator, Requirement};
use serde::Deserialize;

/// The only field of a node that `matchFields` can select by.
pub const NAME_FIELD: &str = "metadata.name";

/// `spec.affinity` of a pod; only the required node affinity is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

/// A node must match one of the terms.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector_terms: Vec<Term>,
}

/// A node must match all expressions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Term {
    /// Expressions on the node's labels.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<Expression>,
    /// Expressions on the node's fields. The only such field is `metadata.name`.
    #[serde(deserialize_with = "null_is_default")]
    pub match_fields: Vec<Expression>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Expression {
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// A required node affinity, checked and ready to be matched.
#[derive(Clone, Debug, Default)]
pub struct Required {
    /// `None` if every node matches.
    terms: Option<Vec<CheckedTerm>>,
}

/// A term without malformed expressions.
#[derive(Clone, Debug)]
struct CheckedTerm {
    labels: LabelSelector,
    numbers: Vec<Comparison>,
    fields: Vec<FieldEquality>,
}

/// A label whose value must be a number on this side of a limit.
#[derive(Clone, Debug)]
struct Comparison {
    key: String,
    is_greater: bool,
    limit: i64,
}

#[derive(Clone, Debug)]
struct FieldEquality {
    key: String,
    value: String,
    /// False for `NotIn`.
    is_equal: bool,
}

impl Required {
    /// Checks a pod's affinity. A term that is empty or malformed matches no node.
    pub fn of(affinity: Option<&Affinity>) -> Self {
        let required = affinity
            .and_then(|affinity| affinity.node_affinity.as_ref())
            .and_then(|affinity| affinity.required.as_ref());
        Self {
            terms: required.map(|selector| {
                let terms = selector.node_selector_terms.iter();
                terms.filter_map(CheckedTerm::of).collect()
            }),
        }
    }

    /// Whether the node with this name and these labels matches.
    pub fn matches(&self, name: &str, labels: &impl Labels) -> bool {
        let Some(terms) = &self.terms else {
            return true;
        };
        terms.iter().any(|term| term.matches(name, labels))
    }
}

impl CheckedTerm {
    /// Returns `None` if the term matches no node.
    fn of(term: &Term) -> Option<Self> {
        if term.match_expressions.is_empty() && term.match_fields.is_empty() {
            return None;
        }
        let mut numbers = Vec::new();
        let mut requirements = Vec::new();
        for expression in &term.match_expressions {
            if let Some(comparison) = comparison(expression)? {
                numbers.push(comparison);
            }
            requirements.push(requirement(expression)?);
        }
        let fields: Option<_> = term.match_fields.iter().map(field_equality).collect();
        Some(Self {
            labels: LabelSelector::new(requirements).ok()?,
            numbers,
            fields: fields?,
        })
    }

    fn matches(&self, name: &str, labels: &impl Labels) -> bool {
        self.labels.matches(labels)
            && self.numbers.iter().all(|number| number.holds(labels))
            && self.fields.iter().all(|field| field.holds(name))
    }
}

impl Comparison {
    fn holds(&self, labels: &impl Labels) -> bool {
        let value = labels.label(&self.key).and_then(|text| text.parse().ok());
        value.is_some_and(|value: i64| match self.is_greater {
            true => value > self.limit,
            false => value < self.limit,
        })
    }
}

impl FieldEquality {
    fn holds(&self, name: &str) -> bool {
        let own = if self.key == NAME_FIELD { name } else { "" };
        (own == self.value) == self.is_equal
    }
}

/// Returns the comparison of `Gt` and `Lt`, and none for other operators; `None` if it is malformed.
fn comparison(expression: &Expression) -> Option<Option<Comparison>> {
    let is_greater = match expression.operator.as_str() {
        "Gt" => true,
        "Lt" => false,
        _ => return Some(None),
    };
    let [limit] = expression.values.as_slice() else {
        return None;
    };
    // The limit must be valid as the value of a label, too, so it has no sign.
    let limit = limit
        .starts_with(|first: char| first.is_ascii_digit())
        .then(|| limit.parse().ok())??;
    Some(Some(Comparison {
        key: expression.key.clone(),
        is_greater,
        limit,
    }))
}

/// Returns the requirement on a label; `None` if the operator is unknown.
fn requirement(expression: &Expression) -> Option<Requirement> {
    let (operator, values) = match expression.operator.as_str() {
        "In" => (Operator::In, expression.values.as_slice()),
        "NotIn" => (Operator::NotIn, expression.values.as_slice()),
        "Exists" => (Operator::Exists, expression.values.as_slice()),
        "DoesNotExist" => (Operator::DoesNotExist, expression.values.as_slice()),
        // A label that is compared with a number must exist.
        "Gt" | "Lt" => (Operator::Exists, [].as_slice()),
        _ => return None,
    };
    Some(Requirement {
        key: expression.key.as_str().into(),
        operator,
        values: values.iter().map(|value| value.as_str().into()).collect(),
    })
}

/// Returns the requirement of an expression on a node's field; `None` if the expression is malformed.
fn field_equality(expression: &Expression) -> Option<FieldEquality> {
    let is_equal = match expression.operator.as_str() {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let [value] = expression.values.as_slice() else {
        return None;
    };
    Some(FieldEquality {
        key: expression.key.clone(),
        value: value.clone(),
        is_equal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the node `n1` with the labels `zone=a` and `cores=8` matches these terms.
    fn matches(terms: Value) -> bool {
        let affinity = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let affinity: Affinity = flyball_sdk::serde_json::from_value(affinity).unwrap();
        let labels = [("zone", "a"), ("cores", "8"), ("text", "x")];
        Required::of(Some(&affinity)).matches("n1", &labels_of(&labels))
    }

    fn labels_of(labels: &[(&str, &str)]) -> flyball_sdk::StringMap {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        labels.iter().map(owned).collect()
    }

    fn labelled(key: &str, operator: &str, values: &[&str]) -> bool {
        matches(
            json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]),
        )
    }

    fn named(key: &str, operator: &str, values: &[&str]) -> bool {
        matches(json!([{"matchFields": [{"key": key, "operator": operator, "values": values}]}]))
    }

    #[test]
    fn a_pod_without_required_affinity_matches_every_node() {
        let none = labels_of(&[]);
        assert!(Required::of(None).matches("n1", &none));
        for affinity in [
            json!({}),
            json!({"nodeAffinity": {}}),
            json!({"podAffinity": {}}),
        ] {
            let affinity: Affinity = flyball_sdk::serde_json::from_value(affinity).unwrap();
            assert!(Required::of(Some(&affinity)).matches("n1", &none));
        }
    }

    #[test]
    fn labels_are_matched_by_every_operator() {
        for (key, operator, values, expected) in [
            ("zone", "In", &["b", "a"][..], true),
            ("zone", "In", &["b"], false),
            ("other", "In", &["a"], false),
            ("zone", "NotIn", &["b"], true),
            ("zone", "NotIn", &["a"], false),
            ("other", "NotIn", &["a"], true),
            ("zone", "Exists", &[], true),
            ("other", "Exists", &[], false),
            ("zone", "DoesNotExist", &[], false),
            ("other", "DoesNotExist", &[], true),
            ("cores", "Gt", &["7"], true),
            ("cores", "Gt", &["8"], false),
            ("cores", "Lt", &["9"], true),
            ("cores", "Lt", &["8"], false),
            ("other", "Lt", &["9"], false),
            ("text", "Gt", &["1"], false),
        ] {
            assert_eq!(
                labelled(key, operator, values),
                expected,
                "{key} {operator}"
            );
        }
    }

    #[test]
    fn a_malformed_term_matches_no_node_and_the_others_still_count() {
        for (key, operator, values) in [
            ("zone", "In", &[][..]),
            ("zone", "Exists", &["a"]),
            ("zone", "Equals", &["a"]),
            ("zone", "NotIn", &["not a value"]),
            ("not a key", "DoesNotExist", &[]),
            ("cores", "Gt", &["many"]),
            ("cores", "Gt", &["-1"]),
            ("cores", "Lt", &["9", "10"]),
            ("cores", "Lt", &[]),
        ] {
            assert!(!labelled(key, operator, values), "{key} {operator}");
            let broken =
                json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            let sound = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
            assert!(matches(json!([broken, sound])), "{key} {operator}");
        }
    }

    #[test]
    fn fields_are_matched_by_the_nodes_name() {
        for (key, operator, values, expected) in [
            (NAME_FIELD, "In", &["n1"][..], true),
            (NAME_FIELD, "In", &["n2"], false),
            (NAME_FIELD, "NotIn", &["n2"], true),
            (NAME_FIELD, "NotIn", &["n1"], false),
            (NAME_FIELD, "In", &["n1", "n2"], false),
            (NAME_FIELD, "Exists", &[], false),
            ("metadata.uid", "In", &["n1"], false),
            ("metadata.uid", "NotIn", &["n1"], true),
        ] {
            assert_eq!(
                named(key, operator, values),
                expected,
                "{key} {operator} {values:?}"
            );
        }
    }

    #[test]
    fn terms_are_alternatives_and_their_expressions_are_not() {
        let zone = |zone: &str| json!({"key": "zone", "operator": "In", "values": [zone]});
        let name = |name: &str| json!({"key": NAME_FIELD, "operator": "In", "values": [name]});
        assert!(matches(
            json!([{"matchExpressions": [zone("b")]}, {"matchExpressions": [zone("a")]}])
        ));
        assert!(!matches(
            json!([{"matchExpressions": [zone("b"), zone("a")]}])
        ));
        assert!(matches(
            json!([{"matchExpressions": [zone("a")], "matchFields": [name("n1")]}])
        ));
        assert!(!matches(
            json!([{"matchExpressions": [zone("a")], "matchFields": [name("n2")]}])
        ));
        assert!(!matches(
            json!([{"matchExpressions": [zone("b")], "matchFields": [name("n1")]}])
        ));
    }

    #[test]
    fn no_terms_and_empty_terms_match_no_node() {
        assert!(!matches(json!([])));
        assert!(!matches(json!(null)));
        assert!(!matches(
            json!([{}, {"matchExpressions": [], "matchFields": null}])
        ));
    }
}
