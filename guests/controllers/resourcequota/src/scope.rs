//! Scopes of a quota. A quota counts an object only if the object is in all of its scopes.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go: getScopeSelectorsFromQuota.
//! Upstream: pkg/apis/core/v1/helper/helpers.go: ScopedResourceSelectorRequirementsAsSelector.

use crate::views::{Quota, Requirement};

/// The operator of a scope that is named without one.
const EXISTS: &str = "Exists";
/// The greatest length of a label's value.
const MAX_VALUE: usize = 63;

/// Returns all scopes of a quota.
pub fn of(quota: &Quota) -> Vec<Requirement> {
    let plain = |scope: &String| Requirement {
        scope_name: scope.clone(),
        operator: EXISTS.into(),
        values: Vec::new(),
    };
    let plain = quota.scopes.iter().map(plain);
    plain.chain(quota.selectors.iter().cloned()).collect()
}

impl Requirement {
    /// Whether the requirement can be evaluated as a label selector over names. The API accepts names of classes that
    /// aren't valid label values.
    pub fn is_valid(&self) -> bool {
        match self.operator.as_str() {
            "In" | "NotIn" => {
                !self.values.is_empty() && self.values.iter().all(|value| is_label_value(value))
            }
            EXISTS => true,
            "DoesNotExist" => self.values.is_empty(),
            _ => false,
        }
    }

    /// Whether the requirement selects an object that refers to these names. Each name is judged by itself. Without a
    /// name, the result is the same as that of a label selector on an object without the label.
    pub fn selects(&self, names: &[&str]) -> bool {
        let has = |name: &str| self.values.iter().any(|value| value == name);
        match self.operator.as_str() {
            "In" => names.iter().any(|name| has(name)),
            "NotIn" => names.is_empty() || names.iter().any(|name| !has(name)),
            EXISTS => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            _ => false,
        }
    }
}

/// Whether a text is a valid value of a label: letters, digits, and `-`, `_` and `.` inside.
fn is_label_value(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_VALUE
        && bytes.iter().all(|byte| is_inner(*byte))
        && is_end(bytes.first())
        && is_end(bytes.last())
}
