//! Native tests of the whole controller.

use flyball_sdk::base64;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta, refusal};
use serviceaccount_token_controller::{ACCOUNTS, ROOT_CA, SECRETS, SIGNING_KEY, Tokens};

const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

const GET_ACCOUNT: (&str, &str) = ("get", "v1/ServiceAccount");
const UPDATE: &str = "update v1/Secret team/token";
const DELETE: &str = "delete v1/Secret team/token";
const UPDATE_ACCOUNT: &str = "update v1/ServiceAccount team/builder";

/// The key of the Secret of [`secret`] while its annotation has the account's UID.
const SECRET_KEY: &str = "team/token/uid-token/builder/uid-builder";
const ACCOUNT_KEY: &str = "team/builder/uid-builder";

fn account(secrets: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": secrets,
           "metadata": {"name": "builder", "namespace": "team", "uid": "uid-builder"}})
}

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": TYPE, "data": data,
           "metadata": {"name": "token", "namespace": "team", "uid": "uid-token", "labels": {"theirs": "stays"},
                        "annotations": {NAME: "builder", UID: "uid-builder", "theirs": "stays"}}})
}

/// Data of a complete Secret.
fn filled() -> Value {
    json!({"token": base64::encode(b"abc"), "namespace": base64::encode(b"team"), "ca.crt": base64::encode(CA.as_bytes())})
}

fn without(key: &str) -> Value {
    let mut data = filled();
    data.as_object_mut().unwrap().remove(key);
    data
}

fn with(key: &str, value: &str) -> Value {
    let mut data = filled();
    data[key] = base64::encode(value.as_bytes()).into();
    data
}

fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config(ROOT_CA, CA);
    cluster.add_key(SIGNING_KEY);
    cluster
}

fn sync_secret(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile_request::<Tokens>(&Request::new(SECRETS, SECRET_KEY))
}

fn sync_account(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile_request::<Tokens>(&Request::new(ACCOUNTS, ACCOUNT_KEY))
}

/// The writes of one reconcile of the Secret.
fn written(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let cluster = cluster(objects);
    assert_eq!(sync_secret(&cluster).unwrap(), Outcome::Done);
    cluster.written()
}

fn found(cluster: &Cluster) -> Value {
    cluster.object("v1/Secret", "team", "token").unwrap()
}

#[test]
fn a_secret_gets_a_token_the_bundle_its_namespace_and_the_accounts_uid() {
    let mut bare = secret(Value::Null);
    bare["metadata"]["annotations"] = json!({NAME: "builder", "theirs": "stays"});
    let cluster = cluster([account(json!([])), bare]);
    let key = "team/token/uid-token/builder/";
    let outcome = cluster
        .reconcile_request::<Tokens>(&Request::new(SECRETS, key))
        .unwrap();
    assert_eq!(
        (outcome, cluster.written()),
        (Outcome::Done, vec![UPDATE.to_owned()])
    );
    let signed = &cluster.signed()[0];
    let found = found(&cluster);
    let data = json!({"token": base64::encode(signed.token.as_bytes()), "namespace": base64::encode(b"team"),
                      "ca.crt": base64::encode(CA.as_bytes())});
    assert_eq!(found["data"], data);
    assert_eq!(
        found["metadata"]["annotations"],
        json!({NAME: "builder", UID: "uid-builder", "theirs": "stays"})
    );
    assert_eq!(found["metadata"]["labels"], json!({"theirs": "stays"}));
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn the_claims_are_those_of_a_legacy_token() {
    let cluster = cluster([account(json!([])), secret(json!({}))]);
    sync_secret(&cluster).unwrap();
    let signed = cluster.signed();
    let claims = json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "team",
        "kubernetes.io/serviceaccount/secret.name": "token",
        "kubernetes.io/serviceaccount/service-account.name": "builder",
        "kubernetes.io/serviceaccount/service-account.uid": "uid-builder",
        "sub": "system:serviceaccount:team:builder",
    });
    assert_eq!(
        (signed.len(), signed[0].key.as_str(), &signed[0].claims),
        (1, "service-account", &claims)
    );
}

#[test]
fn only_missing_data_is_added() {
    for (data, keys) in [
        (without("token"), &["token"][..]),
        (without("namespace"), &["namespace"]),
        (without("ca.crt"), &["ca.crt"]),
        (with("ca.crt", "another"), &["ca.crt"]),
        (with("token", ""), &["token"]),
        (with("namespace", ""), &["namespace"]),
        (
            json!({"theirs": "stays"}),
            &["ca.crt", "namespace", "token"],
        ),
    ] {
        let cluster = cluster([account(json!([])), secret(data.clone())]);
        sync_secret(&cluster).unwrap();
        let writes = cluster.writes();
        let put: Vec<&String> = writes[0].body["data"].as_object().unwrap().keys().collect();
        assert_eq!(
            (writes.len(), put),
            (
                1,
                keys.iter()
                    .map(|key| key.to_string())
                    .collect::<Vec<_>>()
                    .iter()
                    .collect()
            )
        );
        assert_eq!(found(&cluster)["data"]["theirs"], data["theirs"]);
        assert_eq!(
            cluster.signed().len(),
            usize::from(keys.contains(&"token")),
            "{keys:?}"
        );
    }
}

#[test]
fn a_complete_secret_is_kept_and_so_are_a_foreign_token_and_namespace() {
    for data in [
        filled(),
        with("namespace", "another"),
        with("token", "not ours"),
    ] {
        assert_eq!(written([account(json!([])), secret(data)]), [""; 0]);
    }
}

#[test]
fn without_a_bundle_the_secrets_bundle_is_left_alone() {
    for bundle in [None, Some("")] {
        for (data, writes) in [
            (without("ca.crt"), 0),
            (with("ca.crt", "another"), 0),
            (without("token"), 1),
        ] {
            let cluster = Cluster::with([account(json!([])), secret(data.clone())]);
            cluster.add_key(SIGNING_KEY);
            bundle
                .into_iter()
                .for_each(|bundle| cluster.set_config(ROOT_CA, bundle));
            sync_secret(&cluster).unwrap();
            assert_eq!(cluster.written().len(), writes);
            assert_eq!(found(&cluster)["data"]["ca.crt"], data["ca.crt"]);
        }
    }
}

#[test]
fn secrets_of_other_types_are_ignored() {
    let mut opaque = secret(json!({}));
    opaque["type"] = "Opaque".into();
    assert_eq!(written([account(json!([])), opaque.clone()]), [""; 0]);
    let cluster = cluster([opaque]);
    sync_account(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_secret_without_an_account_is_deleted_by_its_uid() {
    let mut reborn = account(json!([]));
    reborn["metadata"]["uid"] = "uid-new".into();
    for objects in [vec![secret(filled())], vec![reborn, secret(filled())]] {
        let cluster = cluster(objects);
        sync_secret(&cluster).unwrap();
        let writes = cluster.writes();
        assert_eq!(
            (writes.len(), writes[0].to_string()),
            (1, DELETE.to_owned())
        );
        assert_eq!(
            writes[0].options["preconditions"],
            json!({"uid": "uid-token"})
        );
    }
}

#[test]
fn an_account_missing_from_the_cache_is_read_live() {
    let cluster = cluster([secret(json!({}))]);
    cluster.put_live(account(json!([])));
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
    assert_eq!(
        cluster.signed()[0].claims["kubernetes.io/serviceaccount/service-account.uid"],
        "uid-builder"
    );

    let mut reborn = account(json!([]));
    reborn["metadata"]["uid"] = "uid-new".into();
    cluster.put_live(reborn);
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [DELETE]);
}

#[test]
fn no_secret_is_deleted_if_the_live_read_fails() {
    let cluster = cluster([secret(filled())]);
    cluster.fail(GET_ACCOUNT.0, GET_ACCOUNT.1, refusal(500, "InternalError"));
    assert!(!sync_secret(&cluster).unwrap_err().is_terminal());
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn the_secrets_current_account_applies_not_that_of_the_key() {
    let mut moved = secret(json!({}));
    moved["metadata"]["annotations"] = json!({NAME: "other"});
    let mut other = account(json!([]));
    other["metadata"] = json!({"name": "other", "namespace": "team", "uid": "uid-other"});
    let cluster = cluster([moved, other]);
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE]);
    assert_eq!(
        cluster.signed()[0].claims["sub"],
        "system:serviceaccount:team:other"
    );
    assert_eq!(
        found(&cluster)["metadata"]["annotations"],
        json!({NAME: "other", UID: "uid-other"})
    );
}

#[test]
fn a_secret_updated_or_deleted_in_the_meantime_is_not_an_error() {
    for (status, reason) in [(409, "Conflict"), (404, "NotFound")] {
        let cluster = cluster([account(json!([])), secret(json!({}))]);
        cluster.fail("update", "v1/Secret", refusal(status, reason));
        assert_eq!(sync_secret(&cluster).unwrap(), Outcome::Done);
        assert_eq!(cluster.writes().len(), 1);
    }
}

#[test]
fn other_errors_are_retried_except_those_of_the_signer() {
    let cluster = cluster([account(json!([])), secret(json!({}))]);
    cluster.fail("update", "v1/Secret", refusal(500, "InternalError"));
    assert!(!sync_secret(&cluster).unwrap_err().is_terminal());
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written()[1], UPDATE);

    let keyless = Cluster::with([account(json!([])), secret(json!({}))]);
    let error = sync_secret(&keyless).unwrap_err();
    assert!(
        error.is_terminal() && error.to_string().contains("`service-account`"),
        "{error}"
    );
    assert_eq!(keyless.written(), [""; 0]);
}

#[test]
fn a_deleted_accounts_secrets_are_deleted_and_no_others() {
    let named = |name: &str, annotations: Value, namespace: &str| {
        let mut secret = secret(filled());
        secret["metadata"] =
            json!({"name": name, "namespace": namespace, "annotations": annotations});
        secret
    };
    let cluster = cluster([
        secret(filled()),
        named("without-uid", json!({NAME: "builder"}), "team"),
        named(
            "of-the-next",
            json!({NAME: "builder", UID: "uid-new"}),
            "team",
        ),
        named(
            "of-another",
            json!({NAME: "other", UID: "uid-builder"}),
            "team",
        ),
        named(
            "elsewhere",
            json!({NAME: "builder", UID: "uid-builder"}),
            "far",
        ),
    ]);
    sync_account(&cluster).unwrap();
    assert_eq!(
        cluster.written(),
        [DELETE, "delete v1/Secret team/without-uid"]
    );
}

#[test]
fn an_existing_account_keeps_its_secrets_and_a_recreated_one_does_not_keep_the_old() {
    let cluster = cluster([account(json!([])), secret(filled())]);
    sync_account(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
    let mut reborn = account(json!([]));
    reborn["metadata"]["uid"] = "uid-new".into();
    cluster.put(reborn);
    sync_account(&cluster).unwrap();
    assert_eq!(cluster.written(), [DELETE]);
}

#[test]
fn a_delete_of_a_deleted_secret_succeeds_and_other_errors_are_reported() {
    for (status, reason, fails) in [
        (404, "NotFound", false),
        (409, "Conflict", false),
        (403, "Forbidden", true),
    ] {
        for sync in [sync_secret, sync_account] {
            let cluster = cluster([secret(filled())]);
            cluster.fail("delete", "v1/Secret", refusal(status, reason));
            let result = sync(&cluster);
            assert_eq!(result.is_err(), fails, "{reason}");
            assert!(result.err().is_none_or(
                |error| !error.is_terminal() && error.to_string().contains("team/token")
            ));
        }
    }
}

#[test]
fn a_deleted_secret_is_removed_from_its_account() {
    let kept = json!({"name": "other", "kind": "Secret"});
    let cluster = cluster([account(json!([{"name": "token"}, kept, {"name": "token"}]))]);
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [UPDATE_ACCOUNT]);
    assert_eq!(
        cluster
            .object("v1/ServiceAccount", "team", "builder")
            .unwrap()["secrets"],
        json!([kept])
    );
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_recreated_secret_is_not_taken_for_the_deleted_one() {
    let mut next = secret(json!({}));
    next["metadata"]["uid"] = "uid-next".into();
    assert_eq!(
        written([account(json!([{"name": "token"}])), next]),
        [UPDATE_ACCOUNT]
    );
}

#[test]
fn a_deleted_or_replaced_account_is_not_updated() {
    let mut reborn = account(json!([{"name": "token"}]));
    reborn["metadata"]["uid"] = "uid-new".into();
    assert_eq!(written([reborn.clone()]), [""; 0]);
    assert_eq!(written([]), [""; 0]);
    let cluster = cluster([account(json!([{"name": "token"}]))]);
    cluster.put_live(reborn);
    sync_secret(&cluster).unwrap();
    cluster.remove_live("v1/ServiceAccount", "team", "builder");
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn the_references_are_read_live() {
    let cluster = cluster([account(json!([{"name": "token"}]))]);
    cluster.put_live(account(json!([])));
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.written(), [""; 0]);
}

#[test]
fn a_conflict_over_the_references_is_retried_and_another_refusal_is_not() {
    let cluster = cluster([account(json!([{"name": "token"}]))]);
    cluster.fail("update", "v1/ServiceAccount", refusal(409, "Conflict"));
    assert!(!sync_secret(&cluster).unwrap_err().is_terminal());
    for (status, reason) in [(404, "NotFound"), (422, "Invalid")] {
        cluster.fail("update", "v1/ServiceAccount", refusal(status, reason));
        assert_eq!(sync_secret(&cluster).unwrap(), Outcome::Done);
    }
    sync_secret(&cluster).unwrap();
    assert_eq!(cluster.writes().len(), 4);
    assert_eq!(
        cluster
            .object("v1/ServiceAccount", "team", "builder")
            .unwrap()["secrets"],
        json!([])
    );
}

/// The queues and keys that a change enqueues.
fn routed(old: Value, new: Value) -> Vec<(String, String)> {
    let object = if new.is_null() { &old } else { &new };
    let watch = format!("v1/{}", object["kind"].as_str().unwrap());
    let present = |object: &Value| !object.is_null();
    let delta = delta(
        &watch,
        Some(&old).filter(|old| present(old)),
        Some(&new).filter(|new| present(new)),
    );
    let routed = Tokens::route(&Cluster::new().host(), &[delta]).unwrap();
    routed
        .into_iter()
        .map(|routed| (routed.queue, routed.key.to_string()))
        .collect()
}

#[test]
fn deleted_accounts_and_all_changes_of_secrets_are_enqueued() {
    let gone = (ACCOUNTS.to_owned(), ACCOUNT_KEY.to_owned());
    assert_eq!(routed(account(json!([])), Value::Null), [gone]);
    assert_eq!(routed(Value::Null, account(json!([]))), []);
    assert_eq!(
        routed(account(json!([])), account(json!([{"name": "a"}]))),
        []
    );
    let changed = [(SECRETS.to_owned(), SECRET_KEY.to_owned())];
    assert_eq!(routed(Value::Null, secret(json!({}))), changed);
    assert_eq!(routed(secret(json!({})), Value::Null), changed);
    let mut moved = secret(json!({}));
    moved["metadata"]["annotations"] = json!({NAME: "other"});
    assert_eq!(
        routed(secret(json!({})), moved.clone()),
        [(SECRETS.into(), "team/token/uid-token/other/".into())]
    );
    moved["metadata"]["annotations"] = json!({});
    assert_eq!(routed(Value::Null, moved), []);
}

#[test]
fn the_queues_retry_ten_times() {
    let description = Tokens::describe();
    assert_eq!(
        description
            .queues
            .iter()
            .map(|queue| queue.max_retries)
            .collect::<Vec<_>>(),
        [Some(10); 2]
    );
    assert_eq!(
        (
            description.concurrency,
            description.imports.contains("signer")
        ),
        (5, true)
    );
}
