//! Tests of the grant that each file gets.

use std::path::Path;

use super::*;

const DIGEST: &str = "4a5b6c7d8e9f00112233445566778899aabbccddeeff00112233445566778899";

const FILE: PluginFile<'static> = file(DIGEST);

const fn file(digest: &str) -> PluginFile<'_> {
    PluginFile {
        digest,
        package: None,
        name: None,
    }
}

impl Grants {
    fn grant_of(
        &self,
        description: &Description,
        file: PluginFile<'_>,
        before: Option<&Asks>,
    ) -> Result<Grant, Refusal> {
        self.dropped_in(description, &Asks::of(description), file, before)
    }
}

fn plugin(permissions: &str) -> Description {
    let text = format!(
        r#"{{"format": 1, "name": "hello", "queues": [{{"name": "hello"}}],
                 "watches": [{{"kind": "v1/Namespace", "fields": ["metadata.annotations"]}}],
                 "permissions": [{permissions}]}}"#
    );
    Description::read(&text).expect("a description")
}

const CREATES: &str = r#"{"kind": "v1/ConfigMap", "verbs": ["create"]}"#;
const DELETES: &str = r#"{"kind": "v1/ConfigMap", "verbs": ["create"]}, {"kind": "v1/ConfigMap", "verbs": ["delete"]}"#;

fn grants(policy: &str) -> Grants {
    let plugins = Policy::parse(Path::new("policy.toml"), policy).expect("a policy");
    Grants {
        plugins,
        ..Grants::default()
    }
}

const WATCHES: &str = "[[plugins.hello.allow]]\nkinds = [\"v1/Namespace\"]\nverbs = [\"watch\"]\n";

#[test]
fn without_a_policy_a_plugin_waits_and_what_it_asks_for_is_told() {
    let refused = grants("")
        .grant_of(&plugin(CREATES), FILE, None)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("watch v1/Namespace, create v1/ConfigMap"),
        "{refused}"
    );
    let trusting = Grants {
        trust: true,
        ..Grants::default()
    };
    let granted = trusting.grant_of(&plugin(CREATES), FILE, None).unwrap();
    assert_eq!(granted.account, None);
    assert!(
        granted
            .policy
            .grants_somewhere("create", "v1/ConfigMap", "")
    );
}

#[test]
fn a_plugin_asks_for_no_more_workers_than_the_operator_allows() {
    let greedy = Description {
        concurrency: 100_000_000,
        ..plugin(CREATES)
    };
    let trusting = Grants {
        trust: true,
        ..Grants::default()
    };
    let concurrency = |grants: &Grants| {
        let grant = grants.grant_of(&greedy, FILE, None);
        grant.expect("it is granted").concurrency
    };
    assert_eq!(concurrency(&trusting), 10);
    assert_eq!(concurrency(&grants(WATCHES)), 100);
    let word = format!("[plugins.hello]\nconcurrency = 500\n{WATCHES}");
    assert_eq!(concurrency(&grants(&word)), 500);
}

#[test]
fn the_operator_sets_the_concurrency_which_is_at_least_one() {
    let asks = |concurrency| Description {
        concurrency,
        ..plugin(CREATES)
    };
    let by_policy = grants(&format!("[plugins.hello]\nconcurrency = 5\n{WATCHES}"));
    let by_flag = |concurrency| Grants {
        concurrency: BTreeMap::from([("hello".to_owned(), concurrency)]),
        ..by_policy.clone()
    };
    for (grants, asked, expected) in [
        (&grants(WATCHES), 0, 1),
        (&grants(WATCHES), 7, 7),
        (&by_policy, 7, 5),
        (&by_flag(3), 7, 3),
        (&by_flag(0), 7, 1),
    ] {
        let grant = grants.grant_of(&asks(asked), FILE, None);
        assert_eq!(grant.expect("it is granted").concurrency, expected);
    }
}

#[test]
fn a_built_in_gets_the_policy_of_its_name_and_as_many_workers_as_it_asks_for() {
    let text = format!("[plugins.hello]\nservice-account = \"kube-system/hello\"\n{WATCHES}");
    let builtins = grants(&text).plugins;
    let grants = Grants {
        builtins,
        ..Grants::default()
    };
    let builtin = Description {
        concurrency: 100_000,
        ..plugin(CREATES)
    };
    let granted = grants.builtin(&builtin);
    let account = ("kube-system".to_owned(), "hello".to_owned());
    assert_eq!(granted.account, Some(account));
    assert_eq!(*granted.policy, grants.builtins.plugins["hello"]);
    assert_eq!(granted.concurrency, 100_000);
    assert!(granted.is_builtin);
    let other = Description {
        name: "other".to_owned(),
        ..builtin
    };
    let granted = grants.builtin(&other);
    assert_eq!(granted.account, None);
    assert_eq!(*granted.policy, PluginPolicy::default());
}

#[test]
fn each_ask_is_told_in_words() {
    let watch = |namespace: &str| Ask::Watch {
        kind: Kind::new("", "v1", "Pod"),
        namespace: namespace.to_owned(),
        fields: Vec::new(),
    };
    let watch_all = |verbs: &[&str]| Ask::WatchAll {
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
    };
    let write = |subresource: &str| Ask::Do {
        verb: "update".to_owned(),
        kind: "v1/Pod".to_owned(),
        subresource: subresource.to_owned(),
        namespace: String::new(),
    };
    let signer = Ask::Use {
        import: "signer".to_owned(),
    };
    for (ask, words) in [
        (watch(""), "watch v1/Pod"),
        (watch("demo"), "watch v1/Pod in demo"),
        (watch_all(&[]), "watch every kind"),
        (
            watch_all(&["list", "delete"]),
            "watch every kind that one can list and delete",
        ),
        (write(""), "update v1/Pod"),
        (write("status"), "update v1/Pod/status"),
        (signer, "use signer"),
    ] {
        assert_eq!(ask.to_string(), words);
    }
}

#[test]
fn the_rules_that_grant_an_ask_grant_no_more() {
    let pod = || Kind::new("", "v1", "Pod");
    let watch = |namespace: &str| Ask::Watch {
        kind: pod(),
        namespace: namespace.to_owned(),
        fields: vec!["spec.nodeName".to_owned()],
    };
    let write = |verb: &str, subresource: &str| Ask::Do {
        verb: verb.to_owned(),
        kind: pod().to_string(),
        subresource: subresource.to_owned(),
        namespace: String::new(),
    };
    let import = Ask::Use {
        import: "signer".to_owned(),
    };
    let all = Ask::WatchAll { verbs: Vec::new() };
    let asks = Asks(BTreeSet::from([
        watch(""),
        watch("demo"),
        all,
        write("create", ""),
        write("delete", ""),
        write("update", "status"),
        import,
    ]));
    let rule = |kind: &str, subresource: &str, verbs: &[&str], namespaces: &[&str]| Rule {
        kinds: vec![kind.to_owned()],
        subresource: subresource.to_owned(),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        namespaces: namespaces.iter().map(|&own| own.to_owned()).collect(),
        fields: Vec::new(),
    };
    let (rules, imports) = asks.grants(&PluginPolicy::default());
    assert_eq!(
        rules,
        [
            rule("v1/Pod", "", &["create", "delete", "watch"], &[]),
            rule("v1/Pod", "", &["watch"], &["demo"]),
            rule("*", "", &["watch"], &[]),
            rule("v1/Pod", "status", &["update"], &[]),
        ]
    );
    assert_eq!(imports, BTreeSet::from(["signer".to_owned()]));
}

#[test]
fn a_watch_outside_the_granted_namespaces_is_refused_without_a_word_about_fields() {
    let demo = format!("{WATCHES}namespaces = [\"demo\"]\nfields = [\"metadata.labels\"]");
    let policy = &grants(&demo).plugins.plugins["hello"];
    let refused = |namespace: &str| {
        let watch = Ask::Watch {
            kind: Kind::new("", "v1", "Namespace"),
            namespace: namespace.to_owned(),
            fields: vec!["spec".to_owned()],
        };
        watch.refused(policy)
    };
    assert_eq!(refused("other"), "watch v1/Namespace in other");
    let told = "watch v1/Namespace in demo: it reads spec, which `fields` does not grant everywhere it would see";
    assert_eq!(refused("demo"), told);
}

#[test]
fn a_grant_covers_one_of_the_same_account_that_grants_no_more() {
    let granted = |policy: &str| grants(policy).grant_of(&plugin(CREATES), FILE, None);
    let grant = granted(WATCHES).expect("it is granted");
    let more = format!(
        "{WATCHES}[[plugins.hello.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"create\"]"
    );
    let more = granted(&more).expect("it is granted");
    assert!(grant.covers(&grant) && more.covers(&grant) && !grant.covers(&more));
    let builtin = Grant {
        is_builtin: true,
        ..grant.clone()
    };
    let elsewhere = Grant {
        account: None,
        ..grant.clone()
    };
    for other in [builtin, elsewhere] {
        assert!(!other.covers(&grant) && !grant.covers(&other), "{other:?}");
    }
}

#[test]
fn what_the_operator_left_out_is_denied_and_the_plugin_runs() {
    let granted = grants(WATCHES)
        .grant_of(&plugin(CREATES), FILE, None)
        .unwrap();
    assert!(
        !granted
            .policy
            .grants_somewhere("create", "v1/ConfigMap", "")
    );
    assert_eq!(
        granted.account,
        Some((ACCOUNTS_NAMESPACE.into(), "hello".into()))
    );
}

#[test]
fn what_it_watches_must_be_granted() {
    let other = WATCHES.replace("v1/Namespace", "v1/Pod");
    let refused = grants(&other)
        .grant_of(&plugin(CREATES), FILE, None)
        .unwrap_err();
    assert_eq!(refused, Refusal::Watch("watch v1/Namespace".into()));
    let narrow = format!("{WATCHES}fields = [\"metadata.labels\"]");
    let refused = grants(&narrow)
        .grant_of(&plugin(CREATES), FILE, None)
        .unwrap_err();
    let told = "watch v1/Namespace: it reads metadata.annotations, which `fields` does not grant everywhere it would see";
    assert_eq!(refused, Refusal::Watch(told.into()));
    let wide = format!("{WATCHES}fields = [\"metadata\"]");
    assert!(grants(&wide).grant_of(&plugin(CREATES), FILE, None).is_ok());
}

#[test]
fn a_version_that_asks_for_more_waits_and_one_that_asks_for_as_much_does_not() {
    let before = Asks::of(&plugin(CREATES));
    assert!(
        grants(WATCHES)
            .grant_of(&plugin(CREATES), FILE, Some(&before))
            .is_ok()
    );
    let refused = grants(WATCHES)
        .grant_of(&plugin(DELETES), FILE, Some(&before))
        .unwrap_err();
    assert!(
        refused.to_string().contains("to delete v1/ConfigMap;"),
        "{refused}"
    );
    let more = format!(
        "{WATCHES}[[plugins.hello.allow]]\nkinds = [\"v1/ConfigMap\"]\nverbs = [\"delete\"]"
    );
    assert!(
        grants(&more)
            .grant_of(&plugin(DELETES), FILE, Some(&before))
            .is_ok()
    );
}

#[test]
fn a_grant_may_be_for_one_file_alone() {
    let bound = format!("[plugins.hello]\ndigest = \"sha256:{DIGEST}\"\n{WATCHES}");
    assert!(
        grants(&bound)
            .grant_of(&plugin(CREATES), FILE, None)
            .is_ok()
    );
    let other = DIGEST.replace('4', "5");
    let refused = grants(&bound)
        .grant_of(&plugin(CREATES), file(&other), None)
        .unwrap_err();
    assert!(refused.to_string().contains(&other), "{refused}");
}

#[test]
fn a_file_with_a_built_ins_name_runs_only_if_the_policy_says_that_it_replaces_it() {
    let with_builtin = |grants: Grants| Grants {
        builtin_names: BTreeSet::from(["hello".to_owned()]),
        ..grants
    };
    let refused = with_builtin(grants(WATCHES))
        .grant_of(&plugin(CREATES), FILE, None)
        .unwrap_err();
    assert!(
        refused.to_string().contains("replaces-builtin"),
        "{refused}"
    );
    let replacing = format!("[plugins.hello]\nreplaces-builtin = true\n{WATCHES}");
    assert!(
        with_builtin(grants(&replacing))
            .grant_of(&plugin(CREATES), FILE, None)
            .is_ok()
    );
    let trusting = Grants {
        trust: true,
        ..Grants::default()
    };
    assert!(
        with_builtin(trusting)
            .grant_of(&plugin(CREATES), FILE, None)
            .is_err()
    );
}

#[test]
fn only_a_file_that_the_name_is_granted_to_sees_the_configuration() {
    let text = format!(
        "[plugins.hello]\ndigest = \"sha256:{DIGEST}\"\nconfig = {{ token = \"secret\", from = \"policy\" }}"
    );
    let flags = BTreeMap::from([("from".to_owned(), "flag".to_owned())]);
    let mut grants = Grants {
        config: BTreeMap::from([("hello".to_owned(), flags)]),
        ..grants(&text)
    };
    let expected = [("from", "flag"), ("token", "secret")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(grants.config_for("hello", FILE), expected.into());
    let other = DIGEST.replace('4', "5");
    assert!(grants.config_for("hello", file(&other)).is_empty());
    grants.builtin_names.insert("hello".to_owned());
    assert!(grants.config_for("hello", FILE).is_empty());
}

#[test]
fn a_policy_with_a_source_accepts_no_file_and_no_other_package() {
    let source = format!("oci://example.com/hello@sha256:{DIGEST}");
    let bound = format!("[plugins.hello]\nsource = \"{source}\"\n{WATCHES}");
    let grant = |package: Option<&str>| {
        let file = PluginFile {
            digest: DIGEST,
            package,
            name: None,
        };
        let granted = grants(&bound).grant_of(&plugin(CREATES), file, None);
        granted.map_err(|refusal| refusal.to_string())
    };
    assert!(grant(Some(&source)).is_ok());
    let refused = grant(None).unwrap_err();
    assert!(
        refused.contains(&format!("only to the package {source}")),
        "{refused}"
    );
    assert!(grant(Some("oci://example.com/other")).is_err());
    // The file must not see the values of the policy either.
    let with_config = format!("{bound}\n[plugins.hello.config]\ntoken = \"secret\"");
    assert!(grants(&with_config).config_for("hello", FILE).is_empty());
}

#[test]
fn signing_keys_are_given_only_to_a_file_or_package_that_the_policy_names() {
    let keys = "[plugins.hello]\nimports = [\"signer\"]\nsigner-keys = [\"a\"]\n";
    let grant = |bound: &str| {
        let text = format!("{keys}{bound}{WATCHES}");
        grants(&text).grant_of(&plugin(CREATES), FILE, None)
    };
    let refused = grant("").unwrap_err().to_string();
    assert!(
        refused.contains(&format!("`digest = \"sha256:{DIGEST}\"`").replace('`', "")),
        "{refused}"
    );
    assert!(grant(&format!("digest = \"sha256:{DIGEST}\"\n")).is_ok());
    let signers = "[plugins.hello]\nimports = [\"signer\"]\n\
                       certificates = [{ signers = [\"example.com/a\"] }]\n";
    let grant = |bound: &str| {
        let text = format!("{signers}{bound}{WATCHES}");
        grants(&text).grant_of(&plugin(CREATES), FILE, None)
    };
    assert!(matches!(grant(""), Err(Refusal::UnboundKeys { .. })));
    assert!(grant(&format!("digest = \"sha256:{DIGEST}\"\n")).is_ok());
}

#[test]
fn a_plugin_has_the_identity_of_its_account_even_where_built_ins_have_the_hosts() {
    let account = Some(("kube-system".to_owned(), "a".to_owned()));
    let grant = |is_builtin| Grant {
        policy: Arc::default(),
        account: account.clone(),
        config: BTreeMap::new(),
        concurrency: 1,
        is_builtin,
    };
    for builtins_use_accounts in [false, true] {
        assert_eq!(
            grant(false).identity(builtins_use_accounts),
            account.as_ref()
        );
    }
    assert_eq!(grant(true).identity(true), account.as_ref());
    assert_eq!(grant(true).identity(false), None);
}

#[test]
fn a_client_is_shared_only_by_versions_with_the_same_credentials_and_the_same_kind_of_name() {
    let account = |name: &str| Some(("kube-system".to_owned(), name.to_owned()));
    let accounts = [None, account("a"), account("b")];
    let grants: Vec<Grant> = [false, true]
        .into_iter()
        .flat_map(|is_builtin| accounts.clone().map(|account| (is_builtin, account)))
        .map(|(is_builtin, account)| Grant {
            policy: Arc::default(),
            account,
            config: BTreeMap::new(),
            concurrency: 1,
            is_builtin,
        })
        .collect();
    for builtins_use_accounts in [false, true] {
        for (one, other) in grants
            .iter()
            .flat_map(|one| grants.iter().map(move |other| (one, other)))
        {
            let expected = one.account.is_some()
                && one.account == other.account
                && one.is_builtin == other.is_builtin
                && (builtins_use_accounts || !one.is_builtin);
            assert_eq!(
                one.shares_client(other, builtins_use_accounts),
                expected,
                "{one:?} after {other:?}, {builtins_use_accounts}"
            );
        }
    }
}
