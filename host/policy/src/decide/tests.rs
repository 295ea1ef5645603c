//! Tests of what policies permit and refuse.

use std::time::Duration;

use flyball_types::description::Description;

use super::*;
use crate::file::tests::{TEXT, parse};

#[test]
fn a_denial_is_one_line_whatever_the_guest_names() {
    let (policy, pod) = (PluginPolicy::default(), Kind::new("", "v1", "Pod"));
    let bad = "x\n\nplugin b: approved\u{1b}[2J";
    for denied in [
        policy.check("get", &pod, bad, "demo"),
        policy.check("get", &pod, "", bad),
        policy.may_record(&pod, bad).map(drop),
        policy.may_use_key(bad).map(drop),
        policy.check_import(bad),
    ] {
        let message = denied.unwrap_err().message;
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[test]
fn a_denial_names_the_subresource_and_the_namespace_if_there_are_any() {
    let (policy, pod) = (PluginPolicy::default(), Kind::new("", "v1", "Pod"));
    for (subresource, namespace, what) in [
        ("", "", "get v1/Pod"),
        ("status", "demo", "get v1/Pod/status in the namespace demo"),
    ] {
        let denied = policy.check("get", &pod, subresource, namespace);
        let expected = format!("the policy does not let this plugin {what}");
        assert_eq!(denied.unwrap_err().message, expected);
    }
}

#[test]
fn a_policy_covers_another_that_grants_no_more() {
    let greeter = |text: &str| parse(text).unwrap().plugins["greeter"].clone();
    let before = greeter(TEXT);
    for (from, to, covers) in [
        ("", "", true),
        ("250ms", "1ms", true),
        ("[\"v1/ConfigMap\"]", "[\"v1/ConfigMap\", \"v1/Pod\"]", true),
        ("[\"v1/ConfigMap\"]", "[\"*\"]", true),
        ("\"create\", \"update\"", "\"*\"", true),
        ("namespaces = [\"demo\"]", "", true),
        (
            "namespaces = [\"demo\"]",
            "namespaces = [\"a\", \"demo\"]",
            true,
        ),
        ("\"status\"", "\"*\"", true),
        ("imports = [\"discovery\"]", "", false),
        ("[\"v1/ConfigMap\"]", "[\"v1/Pod\"]", false),
        ("\"create\", \"update\"", "\"create\"", false),
        ("namespaces = [\"demo\"]", "namespaces = [\"a\"]", false),
        ("verbs = [\"*\"]", "verbs = [\"get\", \"update\"]", false),
        (
            "verbs = [\"*\"]",
            "verbs = [\"*\"]\nnamespaces = [\"a\"]",
            false,
        ),
        ("\"status\"", "\"\"", false),
    ] {
        let after = greeter(&TEXT.replacen(from, to, 1));
        assert_eq!(after.covers(&before), covers, "{from} -> {to}");
    }
    let reads = |fields: &str| {
        greeter(&format!(
            "[[plugins.greeter.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"watch\"]\n{fields}"
        ))
    };
    let (all, labels) = (reads(""), reads("fields = [\"metadata.labels\"]"));
    assert!(all.covers(&labels) && !labels.covers(&all));
    for list in [
        "imports = [\"signer\"]\nsigner-keys = [\"a\"]",
        "http-hosts = [\"example.com\"]",
        "imports = [\"signer\"]\ncertificates = [{ signers = [\"example.com/a\"] }]",
    ] {
        let with = greeter(&format!("[plugins.greeter]\n{list}"));
        let without = PluginPolicy::default();
        assert!(with.covers(&without) && !without.covers(&with), "{list}");
    }
}

#[test]
fn a_plugin_may_do_what_a_rule_allows_and_nothing_else() {
    let policy = parse(TEXT).unwrap();
    let greeter = &policy.plugins["greeter"];
    let map = Kind::new("", "v1", "ConfigMap");
    let deployment = Kind::new("apps", "v1", "Deployment");
    assert!(greeter.check("create", &map, "", "demo").is_ok());
    assert!(greeter.check("patch", &deployment, "status", "any").is_ok());
    for (verb, kind, subresource, namespace) in [
        ("delete", &map, "", "demo"),
        ("create", &map, "", "other"),
        ("create", &map, "", ""),
        ("create", &map, "status", "demo"),
        ("patch", &deployment, "", "any"),
    ] {
        let error = greeter
            .check(verb, kind, subresource, namespace)
            .unwrap_err();
        assert_eq!((error.status, error.reason.as_str()), (403, "Denied"));
    }
    assert!(greeter.check_import("discovery").is_ok());
    assert!(greeter.check_import("signer").is_err());
    assert_eq!(greeter.limits.cpu, Some(Duration::from_millis(250)));
    assert_eq!(greeter.limits.memory, Some(64 << 20));
}

#[test]
fn a_star_is_every_kind_and_every_subresource() {
    let text = "[[plugins.a.allow]]\nkinds = [\"*\"]\nsubresource = \"*\"\nverbs = [\"delete\"]";
    let policy = parse(text).unwrap();
    let widget = Kind::new("example.com", "v1", "Widget");
    for subresource in ["", "status"] {
        assert!(
            policy.plugins["a"]
                .check("delete", &widget, subresource, "demo")
                .is_ok()
        );
        assert!(
            policy.plugins["a"]
                .check("update", &widget, subresource, "demo")
                .is_err()
        );
    }
    assert!(
        parse(&text.replace("[\"*\"]\nsub", "[\"v1/*\"]\nsub"))
            .unwrap_err()
            .contains("`v1/*` is not a kind")
    );
}

#[test]
fn a_key_is_used_only_by_whom_the_operator_names_it_for() {
    let policy = parse("[plugins.issuer]\nimports = [\"signer\"]\nsigner-keys = [\"a\"]").unwrap();
    let issuer = &policy.plugins["issuer"];
    assert!(issuer.may_use_key("a").is_ok());
    assert!(
        issuer
            .may_use_key("b")
            .unwrap_err()
            .message
            .contains("the key `b`")
    );
    let asking = Description {
        imports: BTreeSet::from(["signer".into()]),
        ..Description::default()
    };
    let trusted = PluginPolicy::trusting(&asking);
    assert_eq!(trusted.may_use_key("a").unwrap_err().reason, "Denied");
    let keys_alone = PluginPolicy {
        signer_keys: BTreeSet::from(["a".into()]),
        ..PluginPolicy::default()
    };
    assert!(
        keys_alone
            .may_use_key("a")
            .unwrap_err()
            .message
            .contains("`signer`")
    );
}

#[test]
fn fields_narrow_what_is_read_and_rules_without_them_widen_it() {
    let narrow = "[[plugins.a.allow]]\nkinds = [\"v1/Secret\"]\nverbs = [\"watch\", \"get\"]\nfields = [\"metadata.labels\"]\n";
    let secret = Kind::new("", "v1", "Secret");
    let visible = |text: &str, verb: &str, namespace: &str| {
        parse(text).unwrap().plugins["a"].visible(&[verb], &secret, "", namespace)
    };
    let labels = Visible::Fields(Mask::parse(["metadata.labels"]).unwrap());
    assert_eq!(visible(narrow, "get", "demo"), labels);
    assert_eq!(visible(narrow, "list", "demo"), Visible::Nothing);
    let wide = format!(
        "{narrow}[[plugins.a.allow]]\nkinds = [\"*\"]\nverbs = [\"get\"]\nnamespaces = [\"demo\"]"
    );
    assert_eq!(visible(&wide, "get", "demo"), Visible::All);
    assert_eq!(visible(&wide, "get", "other"), labels);
    // A read of all namespaces sees what is granted in each of them.
    assert_eq!(visible(&wide, "get", ""), labels);
    let writes = narrow.replace("\"get\"", "\"update\"");
    assert!(
        parse(&writes)
            .unwrap_err()
            .contains("`fields` limit what is read")
    );
}

#[test]
fn events_are_recorded_about_what_the_plugin_may_read_or_write() {
    let rule = |kind: &str, verb: &str| {
        format!(
            "[[plugins.a.allow]]\nkinds = [\"{kind}\"]\nverbs = [\"{verb}\"]\nnamespaces = [\"demo\"]\n"
        )
    };
    let (pod, node) = (Kind::new("", "v1", "Pod"), Kind::new("", "v1", "Node"));
    let check = |text: &str, kind: &Kind, namespace: &str| {
        parse(text).unwrap().plugins["a"]
            .may_record(kind, namespace)
            .is_ok()
    };
    let pods = rule("v1/Pod", "watch");
    assert!(check(&pods, &pod, "demo"));
    for (kind, namespace) in [
        (&pod, "other"),
        (&pod, ""),
        (&node, "demo"),
        (&pod, "demo/pods/p/proxy"),
    ] {
        assert!(!check(&pods, kind, namespace), "{kind} {namespace}");
    }
    assert!(check(&rule("v1/Event", "create"), &node, "demo"));
    assert!(!check("[plugins.a]", &pod, "demo"));
}

#[test]
fn a_watch_of_all_namespaces_reads_only_what_each_of_them_grants() {
    let rule = |namespace: &str, field: &str| {
        format!(
            "[[plugins.a.allow]]\nkinds = [\"v1/Secret\"]\nverbs = [\"watch\"]\nnamespaces = [\"{namespace}\"]\n\
                 fields = [\"{field}\"]\n"
        )
    };
    let both = rule("one", "metadata.labels") + &rule("two", "data");
    let policy = &parse(&both).unwrap().plugins["a"];
    let secret = Kind::new("", "v1", "Secret");
    let ungranted = |namespace: &str, fields: &[&str]| {
        let read = Mask::parse(fields).unwrap();
        let paths = policy.ungranted_fields(&secret, namespace, &read);
        paths.iter().map(FieldPath::to_string).collect::<Vec<_>>()
    };
    assert_eq!(ungranted("one", &["metadata.labels"]), [""; 0]);
    assert_eq!(ungranted("two", &["data.a"]), [""; 0]);
    assert_eq!(ungranted("one", &["metadata.labels", "data"]), ["data"]);
    assert_eq!(ungranted("", &["data.a"]), ["data.a"]);
    assert_eq!(
        ungranted("", &["metadata.labels", "data"]),
        ["data", "metadata.labels"]
    );
    assert_eq!(ungranted("", &["metadata.name"]), [""; 0]);
}

#[test]
fn a_kind_is_watched_where_a_rule_grants_it() {
    let rule = |namespaces: &str| {
        format!("[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"watch\"]\n{namespaces}\n")
    };
    let (pod, node) = (Kind::new("", "v1", "Pod"), Kind::new("", "v1", "Node"));
    let policy = |text: &str| parse(text).unwrap().plugins["a"].clone();
    let two = policy(&rule("namespaces = [\"two\", \"one\"]"));
    let names = BTreeSet::from(["one", "two"].map(str::to_owned));
    assert_eq!(two.watched_namespaces(&pod), Some(names));
    assert_eq!(two.watched_namespaces(&node), Some(BTreeSet::new()));
    let all = policy(&(rule("namespaces = [\"one\"]") + &rule("")));
    assert_eq!(all.watched_namespaces(&pod), None);
    for (policy, kind, namespace, may) in [
        (&two, &pod, "", true),
        (&two, &pod, "one", true),
        (&two, &pod, "three", false),
        (&two, &node, "", false),
        (&all, &pod, "three", true),
    ] {
        let found = policy.may_watch(kind, namespace);
        assert_eq!(found, may, "{kind} in `{namespace}`");
    }
}

#[test]
fn a_rule_with_fields_limits_those_of_its_own_kinds() {
    let text = "[[plugins.a.allow]]\nkinds = [\"v1/Secret\"]\nverbs = [\"get\"]\nfields = [\"metadata.labels\"]\n\
                [[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"get\"]\n";
    let policy = &parse(text).unwrap().plugins["a"];
    for (kind, limits) in [("Secret", true), ("Pod", false), ("Node", false)] {
        assert_eq!(policy.limits_fields(&Kind::new("", "v1", kind)), limits);
    }
}

#[test]
fn a_pattern_of_a_group_has_the_kinds_of_this_group_alone() {
    for (kind, pattern, is_in) in [
        ("apps/v1/Deployment", "apps/*", true),
        ("apps.example.com/v1/Widget", "apps/*", false),
        ("batch/v1/Job", "apps/*", false),
        ("apps/v1/Deployment", "apps", false),
        // A kind of the core group, whose name begins with its version.
        ("v1/Pod", "v1/*", false),
    ] {
        assert_eq!(is_in_group(kind, pattern), is_in, "{kind} of {pattern}");
    }
}

#[test]
fn a_list_that_is_empty_has_all() {
    let list = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.into()).collect() };
    for (own, other, has) in [
        (&[][..], &[][..], true),
        (&[], &["a"], true),
        (&["a"], &[], false),
        (&["a", "b"], &["a"], true),
        (&["a"], &["a", "b"], false),
    ] {
        assert_eq!(has_all(&list(own), &list(other)), has, "{own:?}, {other:?}");
    }
}

#[test]
fn what_is_visible_is_the_least_of_what_two_rules_show() {
    let fields = || Mask::parse(["metadata.labels"]).unwrap();
    let labels = || Visible::Fields(fields());
    let (nothing, all) = (Visible::Nothing, Visible::All);
    for (own, outer, expected) in [
        (nothing.clone(), all.clone(), nothing.clone()),
        (all.clone(), nothing.clone(), nothing.clone()),
        (labels(), all.clone(), labels()),
        (all.clone(), labels(), labels()),
    ] {
        assert_eq!(
            own.clone().within(outer.clone()),
            expected,
            "{own:?} {outer:?}"
        );
    }
    let secret = Kind::new("", "v1", "Secret");
    let denied = nothing.check(&secret, &fields()).unwrap_err().message;
    assert_eq!(
        denied,
        "the policy does not let this plugin see metadata.labels of v1/Secret"
    );
    assert!(labels().check(&secret, &fields()).is_ok());
    assert!(labels().check(&secret, &Mask::whole()).is_err());
    assert!(all.check(&secret, &Mask::whole()).is_ok());
    let masks = [nothing, labels(), all].map(Visible::mask);
    assert_eq!(masks, [Some(Mask::default()), Some(fields()), None]);
}

#[test]
fn a_refusal_of_the_server_is_told_only_to_those_who_may_see_the_whole_object() {
    const MESSAGE: &str = "data.password is too short";
    let secret = Kind::new("", "v1", "Secret");
    let labels = || Visible::Fields(Mask::parse(["metadata.labels"]).unwrap());
    let of_server = |reason| ApiError::of_server(422, reason, MESSAGE);
    for (visible, error, is_told) in [
        (Visible::All, of_server("Invalid"), true),
        (labels(), of_server("Invalid"), false),
        (Visible::Nothing, of_server("Invalid"), false),
        (labels(), of_server("NotFound"), true),
        (labels(), of_server("AlreadyExists"), true),
        // The host's own.
        (labels(), ApiError::denied(MESSAGE), true),
    ] {
        let told = visible.refusal(&secret, error.clone());
        assert_eq!(told.message == MESSAGE, is_told, "{visible:?} {error:?}");
        assert_eq!(told.reason, error.reason);
    }
}
