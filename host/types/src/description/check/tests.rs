//! Descriptions that are refused, each with its message.

use super::*;
use crate::KindPattern;
use crate::description::{Having, Owners, Unless};

const GOOD: &str = r#"{
    "format": 1, "name": "replicaset-controller", "queues": [{"name": "replicaset"}],
    "watches": [
        {"kind": "apps/v1/ReplicaSet", "fields": ["."], "map": [{"to": "itself"}]},
        {"kind": "v1/Pod", "fields": ["status.phase"], "map": [
            {"to": "controller", "kind": "apps/v1/ReplicaSet"},
            {"to": "selecting", "kind": "apps/v1/ReplicaSet", "path": "spec.selector", "orphans": true, "delayMs": 5}
        ]}
    ]
}"#;

/// `GOOD` with one more field.
fn good_with(field: &str) -> String {
    GOOD.replacen(r#""format": 1"#, &format!(r#""format": 1, {field}"#), 1)
}

#[test]
fn a_message_shows_the_beginning_of_a_name_on_one_line() {
    let long = "a".repeat(200_000);
    for (name, shown) in [("fau\nlty\u{1b}[2J", r"fau\nlty\u001b[2J"), (&long, "aaa")] {
        let description = Description {
            name: name.to_owned(),
            ..Description::default()
        };
        let error = description.check().unwrap_err().to_string();
        assert!(error.contains(&format!("`{shown}")), "{error}");
        assert!(error.len() < 500 && !error.contains('\n'), "{error}");
    }
}

#[test]
fn texts_that_log_lines_and_metrics_repeat_are_short() {
    let long = "a".repeat(2000);
    let metric = |field: &str| {
        let mut metric = serde_json::json!({"name": "a", "help": "a", "type": "counter"});
        metric[field] = match field {
            "labels" => vec![long.as_str()].into(),
            _ => long.as_str().into(),
        };
        let metrics = format!(r#""metrics": [{metric}]"#);
        (metrics, "has 2000 bytes, more than 1024")
    };
    let config = format!(r#""config": {{"{long}": {{"help": "a"}}}}"#);
    let index =
        format!(r#""indexes": [{{"name": "{long}", "kind": "v1/Pod", "path": "metadata.name"}}]"#);
    for (field, expected) in [
        metric("name"),
        metric("help"),
        metric("labels"),
        (config, "has 2000 bytes, more than 1024"),
        (index, "has 2000 bytes, more than 1024"),
    ] {
        let error = Description::read(&good_with(&field)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(expected) && error.len() < 500, "{error}");
    }
    for (field, expected) in [
        (
            format!(r#""version": "{long}""#),
            "its version has 2000 bytes, more than 128",
        ),
        (
            format!(r#""tickers": [{{"key": "{long}", "periodMs": 1000}}]"#),
            "the key has 2000 bytes, more than 1024",
        ),
    ] {
        let error = Description::read(&good_with(&field))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected) && error.len() < 500, "{error}");
    }
}

#[test]
fn all_mistakes_are_named_at_once_up_to_a_number() {
    let document = GOOD
        .replace("spec.selector", "spec..selector")
        .replace("status.phase", "status..phase")
        .replace(r#""orphans""#, r#""queue": "replicast", "orphans""#);
    let document = document.replacen(
        r#""format": 1"#,
        r#""format": 1, "imports": ["signr"], "permissions": [{"kind": "v1/Pod", "verbs": ["delet"]}]"#,
        1,
    );
    let error = Description::read(&document).unwrap_err().to_string();
    for expected in [
        "`status..phase`",
        "`spec..selector`",
        "did you mean `replicaset`?",
        "did you mean `delete`?",
        "did you mean `signer`?",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let many: Vec<String> = (0..100).map(|number| format!("\"a..{number}\"")).collect();
    let document = GOOD.replace("\"status.phase\"", &many.join(","));
    let error = Description::read(&document).unwrap_err().to_string();
    assert!(
        error.ends_with("; and 90 more") && error.len() < 2000,
        "{error}"
    );
}

#[test]
fn what_costs_the_caches_most_is_bounded_for_each_kind() {
    let refused = |watches: &str, more: &str| {
        let document = format!(
            r#"{{"format": 1, "name": "a", "queues": [{{"name": "a"}}], "watches": [{watches}]{more}}}"#
        );
        Description::read(&document).unwrap_err().to_string()
    };
    let list =
        |count: usize, one: &dyn Fn(usize) -> String| Vec::from_iter((0..count).map(one)).join(",");
    let watch = |map: String| format!(r#"{{"kind": "v1/Pod", "map": [{map}]}}"#);
    let part =
        |kind: usize| format!(r#"{{"kind": "example.com/v1/K{kind}", "labelSelector": "a"}}"#);
    let selecting =
        |path: usize| format!(r#"{{"to": "selecting", "kind": "v1/Pod", "path": "spec.a{path}"}}"#);
    let broad = |_| r#"{"to": "all", "kind": "v1/Pod"}"#.to_owned();
    let index =
        |path: usize| format!(r#"{{"name": "i{path}", "kind": "v1/Pod", "path": "spec.a{path}"}}"#);
    let indexes = format!(r#", "indexes": [{}]"#, list(9, &index));
    for (error, expected) in [
        (
            refused(&list(5, &|_| watch(String::new())), ""),
            "v1/Pod: it has 5 watches, more than 4",
        ),
        (
            refused(&list(17, &part), ""),
            "17 watches of a part of a kind, more than 16",
        ),
        (
            refused(&watch(list(5, &selecting)), ""),
            "v1/Pod: it has 5 paths of selectors, more than 4",
        ),
        (
            refused(&watch(list(5, &broad)), ""),
            "5 mappings of a watch to all objects, more than 4",
        ),
        (
            refused(&watch(String::new()), &indexes),
            "v1/Pod: it has 9 indexed paths, more than 8",
        ),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_description_is_read_and_written_again() {
    let description = Description::read(GOOD).unwrap();
    assert_eq!(description.watches.len(), 2);
    assert_eq!(description.watches[1].map[1].delay_ms, 5);
    assert_eq!(description.queues[0].base_delay_ms, 5);
    assert_eq!(
        Description::read(&serde_json::to_string(&description).unwrap()),
        Ok(description)
    );
}

#[test]
fn a_permission_may_be_on_all_kinds() {
    let asking = |kind: &str| {
        let asked = format!(r#""permissions": [{{"kind": "{kind}", "verbs": ["delete"]}}]"#);
        Description::read(&good_with(&asked))
    };
    let description = asking("*").unwrap();
    assert_eq!(description.permissions[0].kind, KindPattern::All);
    assert_eq!(
        Description::read(&serde_json::to_string(&description).unwrap()),
        Ok(description)
    );
    assert!(
        asking("v1/*")
            .unwrap_err()
            .to_string()
            .contains("`v1/*` is not a kind")
    );
}

#[test]
fn discovered_kinds_have_a_period_and_only_what_all_kinds_have() {
    let following = |watch: &str| {
        let watch = format!(
            r#"{{"discovered": {{"verbs": ["delete"], "periodMs": 30000}}, {watch}}}, {{"kind""#
        );
        Description::read(&GOOD.replacen(r#"{"kind""#, &watch, 1))
    };
    let description =
        following(r#""map": [{"to": "reference"}, {"to": "ownerReferences", "which": "missing"}]"#);
    let description = description.unwrap();
    assert_eq!(
        Description::read(&serde_json::to_string(&description).unwrap()),
        Ok(description)
    );
    for (watch, expected) in [
        (r#""kind": "v1/Pod""#, "has both a `kind` and `discovered`"),
        (r#""fields": ["spec"]"#, "only the metadata"),
        (
            r#""fieldSelector": "metadata.name=a""#,
            "not every kind supports",
        ),
        (r#""map": [{"to": "itself"}]"#, "use `reference`"),
        (
            r#""map": [{"to": "reference", "having": {"path": "a..b", "value": ""}}]"#,
            "a..b",
        ),
        (
            r#""map": [{"to": "reference", "havingAny": ["c..d"]}]"#,
            "c..d",
        ),
        (
            r#""map": [{"to": "reference", "unless": [{"path": "e..f"}]}]"#,
            "e..f",
        ),
        (r#""discovered": {"periodMs": 0}"#, "duplicate field"),
    ] {
        let error = following(watch).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let timeless = GOOD.replacen(
        r#"{"kind""#,
        r#"{"discovered": {"periodMs": 0}}, {"kind""#,
        1,
    );
    assert!(
        Description::read(&timeless)
            .unwrap_err()
            .to_string()
            .contains("`periodMs` is 0")
    );
    let counting = r#"{"discovered": {"periodMs": 1, "errors": "lost"}}, {"kind""#;
    let error = Description::read(&GOOD.replacen(r#"{"kind""#, counting, 1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`lost`, which is not a counter"), "{error}");
}

#[test]
fn a_misspelt_name_is_refused_with_the_one_that_was_meant() {
    let permissions = r#""permissions": [{"kind": "v1/Pod", "verbs": ["VERB"]}]"#;
    let verb = |verb: &str| good_with(&permissions.replace("VERB", verb));
    let mapped = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        GOOD.replacen(from, to, 1)
    };
    for (document, expected) in [
        (
            verb("wach"),
            "the verb `wach` is unknown: did you mean `watch`?",
        ),
        (
            verb("x"),
            "the verb `x` is unknown: use get, list, watch, create",
        ),
        (
            good_with(r#""imports": ["signr"]"#),
            "the import `signr` is unknown: did you mean `signer`?",
        ),
        (
            mapped(
                r#""selecting", "kind": "apps/v1/ReplicaSet""#,
                r#""selecting", "kind": "apps/v1/Replicaset""#,
            ),
            "a mapping is to apps/v1/Replicaset, which is not watched: did you mean `apps/v1/ReplicaSet`?",
        ),
        (
            mapped(
                r#"{"to": "itself"}"#,
                r#"{"to": "itself", "queue": "replicasets"}"#,
            ),
            "the queue `replicasets` is not among the queues: did you mean `replicaset`?",
        ),
        (
            good_with(r#""indexes": [{"name": "i", "kind": "v1/Pot", "path": "spec"}]"#),
            "the index `i` is over v1/Pot, which is not watched: did you mean `v1/Pod`?",
        ),
    ] {
        let error = Description::read(&document).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_does_not_fit_together_is_refused_with_the_place() {
    for (from, to, expected) in [
        (r#""format": 1"#, r#""format": 9"#, "format 9"),
        ("replicaset-controller", "Replica Set", "not a DNS label"),
        (r#"[{"name": "replicaset"}]"#, "[]", "no queue"),
        (
            r#"[{"name": "replicaset"}]"#,
            r#"[{"name": "a/b"}]"#,
            "the queue `a/b`: its name must have",
        ),
        (
            r#""path": "spec.selector""#,
            r#""path": "spec..selector""#,
            "spec..selector",
        ),
        (
            r#""path": "spec.selector""#,
            r#""path": "spec", "whose": {"path": "a..b", "value": ""}"#,
            "a..b",
        ),
        (
            r#""selecting", "kind": "apps/v1/ReplicaSet""#,
            r#""selecting", "kind": "v1/Service""#,
            "v1/Service, which is not",
        ),
        (
            r#"{"to": "itself"}"#,
            r#"{"to": "itself", "queue": "other"}"#,
            "queue `other`",
        ),
        (r#"{"to": "itself"}"#, r#"{"to": "elsewhere"}"#, "elsewhere"),
        (r#""status.phase""#, r#""status phase""#, "status phase"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = Description::read(&GOOD.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_description_with_every_field_reads_back_as_it_was_written() {
    let full = r#"{
        "format": 1, "name": "full", "version": "1", "concurrency": 2, "eventSource": "s", "malformedEvents": true, "memoSchema": 1,
        "watches": [{
            "kind": "v1/Pod", "namespace": "n", "labelSelector": "a=b", "fieldSelector": "metadata.name=x",
            "metadataOnly": true, "fields": ["spec"], "changes": ["generation", {"path": "spec"}],
            "map": [
                {"to": "named", "path": "spec.nodeName", "namespaced": false},
                {"to": "selecting", "kind": "v1/Pod", "path": "spec", "orphans": true, "whose": {"path": "spec", "value": "a"}},
                {"to": "constant", "key": "k", "on": ["added"], "queue": "q", "delayMs": 5},
                {"to": "route", "having": [{"path": "spec", "value": "a"}, {"path": "status", "value": "b"}]},
                {"to": "reference", "deleting": true, "havingAny": ["spec", "status"], "having": {"path": "metadata.finalizers", "value": "orphan"}},
                {"to": "ownerReferences", "which": "deleting"}
            ]
        }, {
            "discovered": {
                "verbs": ["delete"], "except": ["v1/Event"], "periodMs": 1, "config": "period", "errors": "c"
            }
        }],
        "indexes": [{"name": "i", "kind": "v1/Pod", "path": "spec"}],
        "queues": [{"name": "q", "baseDelayMs": 1, "maxDelayMs": 2, "qps": 1, "burst": 1, "maxRetries": 1}],
        "tickers": [{"key": "k", "queue": "q", "periodMs": 1, "config": "period"}],
        "permissions": [{"kind": "v1/Pod", "subresource": "status", "verbs": ["update"]}],
        "imports": ["discovery"], "config": {"period": {"default": "1s", "help": "h"}},
        "metrics": [
            {"name": "m", "help": "h", "labels": ["l"], "type": {"histogram": [1.0]}},
            {"name": "c", "help": "h", "type": "counter"}
        ]
    }"#;
    let description = Description::read(full).expect("it is valid");
    let written = serde_json::to_string(&description).expect("it is written");
    assert_eq!(Description::read(&written), Ok(description));
}

#[test]
fn a_mapping_to_each_target_reads_back_as_it_was_written() {
    let kind = Kind::new("", "v1", "Pod");
    let having = |value: &str| Having {
        path: "spec.a".into(),
        value: value.into(),
    };
    let unless = [None, Some("d".to_owned())].map(|value| Unless {
        path: "spec.c".into(),
        value,
    });
    let watched = kind.clone();
    for to in [
        To::Itself,
        To::Controller { kind: kind.clone() },
        To::Owner { kind: kind.clone() },
        To::Named {
            path: "spec.a".into(),
            namespaced: true,
            kind: None,
            whose: vec![],
            missing: false,
        },
        To::Named {
            path: "spec.a".into(),
            namespaced: false,
            kind: Some(kind.clone()),
            whose: vec![having("a")],
            missing: true,
        },
        To::Selecting {
            kind: kind.clone(),
            path: "spec.a".into(),
            whose: vec![having("a"), having("b")],
        },
        To::InNamespace { kind: kind.clone() },
        To::All { kind },
        To::Namespace,
        To::Constant { key: "k".into() },
        To::Reference,
        To::Dependents,
        To::OwnerReferences {
            which: Owners::Missing,
        },
        To::Route,
    ] {
        let mapping = Mapping {
            to,
            on: vec![],
            queue: String::new(),
            delay_ms: 0,
            orphans: false,
            deleting: true,
            having: vec![having("a")],
            having_any: vec!["spec.b".into()],
            unless: unless.to_vec(),
            while_any: vec![watched.clone()],
        };
        let written = serde_json::to_string(&mapping).expect("it is written");
        assert_eq!(
            serde_json::from_str::<Mapping>(&written).expect(&written),
            mapping
        );
    }
}

#[test]
fn what_a_mapping_looks_up_is_a_watched_kind() {
    let mistakes = |mapping: &str| {
        let document = format!(
            r#"{{"format": 1, "name": "a", "queues": [{{"name": "a"}}],
                "watches": [{{"kind": "v1/Pod", "map": [{mapping}]}}, {{"kind": "v1/Node"}}]}}"#
        );
        let description: Description = serde_json::from_str(&document).expect("it is read");
        description.mistakes().join("; ")
    };
    let named = |more: &str| {
        mistakes(&format!(
            r#"{{"to": "named", "path": "spec.a", "namespaced": false{more}}}"#
        ))
    };
    let whose = r#""whose": {"path": "spec.b", "value": "x"}"#;
    for (more, expected) in [
        (String::new(), ""),
        (r#", "kind": "v1/Node", "missing": true"#.into(), ""),
        (format!(r#", "kind": "v1/Node", {whose}"#), ""),
        (format!(", {whose}"), "not the `kind`"),
        (r#", "missing": true"#.into(), "not the `kind`"),
        (
            r#", "kind": "v1/Secret", "missing": true"#.into(),
            "not watched",
        ),
        (
            format!(r#", "kind": "v1/Node", "missing": true, {whose}"#),
            "both `whose` and `missing`",
        ),
        (
            r#", "kind": "v1/Node", "whose": {"path": "a..b", "value": "x"}"#.into(),
            "is not a field path",
        ),
    ] {
        let found = named(&more);
        assert!(found.contains(expected), "{more}: {found}");
        assert_eq!(found.is_empty(), expected.is_empty(), "{more}: {found}");
    }
    let while_any =
        |kind: &str| mistakes(&format!(r#"{{"to": "itself", "whileAny": ["{kind}"]}}"#));
    assert_eq!(while_any("v1/Node"), "");
    assert!(while_any("v1/Secret").contains("`whileAny` of v1/Secret, which is not watched"));
}

#[test]
fn names_that_could_break_out_of_a_manifest_are_refused() {
    for (asked, expected) in [
        (
            r#""permissions": [{"kind": "v1/Pod", "verbs": ["get\n---\nkind: Secret"]}]"#,
            r"the verb `get\n---\nkind: Secret` is unknown: did you mean `get`?",
        ),
        (
            r#""permissions": [{"kind": "v1/Pod", "subresource": "a\nb", "verbs": ["get"]}]"#,
            r"the subresource `a\nb` is not a name",
        ),
        (r#""imports": ["clock"]"#, "the import `clock` is unknown"),
    ] {
        let error = Description::read(&good_with(asked))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let all = r#""permissions": [{"kind": "v1/Pod", "verbs": ["*"]}]"#;
    assert!(Description::read(&good_with(all)).is_ok());
}
