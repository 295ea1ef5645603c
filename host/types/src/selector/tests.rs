//! The three forms of selectors.

use serde_json::{Value, json};

use super::*;

fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
    selector.parse::<LabelSelector>().unwrap().matches(labels)
}

#[test]
fn each_operator_matches_as_in_the_api() {
    let labels = [("a", "1"), ("x.io/b", "2"), ("e", "")];
    for selector in [
        "",
        "a=1",
        "a==1",
        "a",
        "!c",
        "c!=1",
        "c notin (1)",
        "a in (1, 2),x.io/b notin (1,3)",
        "e=",
        "e in ()",
    ] {
        assert!(matches(selector, &labels), "{selector}");
    }
    for selector in [
        "a=2",
        "c",
        "!a",
        "a!=1",
        "a notin (1,2)",
        "c in (1)",
        "a=1,c",
        "e!=",
    ] {
        assert!(!matches(selector, &labels), "{selector}");
    }
}

#[test]
fn a_walk_over_the_labels_finds_what_a_walk_over_the_requirements_does() {
    let sets: [&[(&str, &str)]; 4] = [
        &[],
        &[("a", "1")],
        &[("a", "2"), ("b", "1")],
        &[("b", "2"), ("c", "1"), ("a", "1")],
    ];
    let parts = ["a", "!a", "a in (1,2)", "a!=1", "b notin (1,3)", "!c", "c"];
    for subset in 0..1 << parts.len() {
        let chosen = (0..parts.len()).filter(|part| subset & (1 << part) != 0);
        let text = Vec::from_iter(chosen.map(|part| parts[part])).join(",");
        let selector: LabelSelector = text.parse().unwrap();
        for labels in sets {
            assert_eq!(
                selector.matches_all(labels.iter().copied()),
                selector.matches(labels),
                "{text} {labels:?}"
            );
        }
    }
    assert!(!LabelSelector::nothing().matches_all(std::iter::empty()));
}

#[test]
fn a_selector_has_a_bounded_number_of_requirements_and_values() {
    let many = |part: &str| Vec::from_iter((0..1001).map(|n| format!("{part}{n}"))).join(",");
    let values = format!("a in ({}),b in ({})", many("v"), "v");
    for (text, problem) in [
        (many("!k"), "more than 1000 requirements"),
        (values, "more than 1000 values"),
    ] {
        let error = text.parse::<LabelSelector>().unwrap_err().to_string();
        assert!(error.contains(problem) && error.len() < 500, "{error}");
    }
}

#[test]
fn parsing_reverses_display() {
    for text in [
        "",
        "a=1",
        "!h,a in (x,y),b!=2,c notin (p,q),g",
        "nothing,!nothing",
    ] {
        let selector: LabelSelector = text.parse().unwrap();
        assert_eq!(selector.to_string().parse(), Ok(selector), "{text}");
    }
    assert!(!matches(
        &LabelSelector::nothing().to_string(),
        &[("nothing", "")]
    ));
}

#[test]
fn an_error_contains_the_text_of_the_invalid_selector() {
    for text in [
        "a=1,",
        ",",
        "a in (x",
        "a within (x)",
        "a b",
        "a>5",
        "-a=1",
        "a=b c",
        "x/y/z",
        "a=1=2",
        "!",
        "a/=1",
    ] {
        let error = text.parse::<LabelSelector>().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn a_spec_has_a_selector_or_a_map() {
    let selector = |value: Value| LabelSelector::of_json(value.to_string().as_bytes());
    let of = |value: Value| selector(value).map(|selector| selector.to_string());
    assert_eq!(of(json!({"matchLabels": {"a": "1"}})).unwrap(), "a=1");
    let expressions = json!([{"key": "b", "operator": "NotIn", "values": ["y", "x"]}, {"key": "c", "operator": "Exists"}]);
    assert_eq!(
        of(json!({"matchLabels": {"a": "1"}, "matchExpressions": expressions})).unwrap(),
        "a=1,b notin (x,y),c"
    );
    assert_eq!(of(json!({"a": "1", "b": "2"})).unwrap(), "a=1,b=2");
    assert_eq!(
        of(json!({"matchLabels": "a label of that name"})).map_err(|_| ()),
        Err(())
    );
    assert!(selector(json!({})).unwrap().is_everything());
    assert!(
        selector(json!({"matchLabels": null}))
            .unwrap()
            .is_everything()
    );
    assert!(selector(Value::Null).unwrap().is_nothing());
    for wrong in [
        json!([]),
        json!("a=1"),
        json!({"a": 1}),
        json!({"matchLabels": {"a": "1"}, "b": "2"}),
        json!({"matchExpressions": null, "b": "2"}),
        json!({"matchLabels": [], "matchExpressions": {}}),
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
    ] {
        assert!(of(wrong.clone()).is_err(), "{wrong}");
    }
    for twice in [
        r#"{"matchLabels": {"a": "1"}, "matchLabels": {"b": "2"}}"#,
        r#"{"matchExpressions": null, "matchExpressions": []}"#,
    ] {
        assert!(LabelSelector::of_json(twice.as_bytes()).is_err(), "{twice}");
    }
}
