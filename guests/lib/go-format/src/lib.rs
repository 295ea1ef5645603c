//! The text of values and errors in events and conditions where kube-controller-manager prints them as Go does.
//!
//! Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/generated.pb.go: String.

mod duration;
mod selector_error;

use std::collections::BTreeMap;
use std::fmt::Write;

use flyball_sdk::Raw;
use flyball_sdk::meta::null_is_default;
use serde::Deserialize;

pub use duration::duration;
pub use selector_error::{label_selector_error, selector_error};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    #[serde(deserialize_with = "null_is_default")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    #[serde(deserialize_with = "null_is_default")]
    values: Vec<String>,
}

/// Returns a LabelSelector as Go's `%v` prints it; `nil` if it is null.
pub fn label_selector(selector: &Raw) -> String {
    let Ok(Some(Fields {
        match_labels,
        match_expressions,
    })) = selector.parse()
    else {
        return "nil".into();
    };
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in match_labels {
        let _ = write!(text, "{key}: {value},");
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for Expression {
        key,
        operator,
        values,
    } in match_expressions
    {
        let values = values.join(" ");
        let _ = write!(
            text,
            "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
        );
    }
    text.push_str("},}");
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_selector_is_printed_as_in_go() {
        let text = |selector: Value| label_selector(&Raw::from(selector));
        assert_eq!(text(Value::Null), "nil");
        assert_eq!(
            text(json!({})),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
        assert_eq!(
            text(
                json!({"matchLabels": {"tier": "x", "app": "web"}, "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d", "operator": "Exists"}]})
            ),
            "&LabelSelector{MatchLabels:map[string]string{app: web,tier: x,},\
             MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:In,Values:[b c],},\
             LabelSelectorRequirement{Key:d,Operator:Exists,Values:[],},},}"
        );
    }
}
