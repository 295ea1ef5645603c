//! bootstrap-signer-controller: signs the ConfigMap `cluster-info` with bootstrap tokens.
//!
//! A node that joins the cluster reads the ConfigMap before it trusts the API server. It checks the signature that was
//! made with its own token.
//!
//! Upstream: pkg/controller/bootstrap/bootstrapsigner.go: DefaultSignerOptions, NewSigner, signConfigMap,
//! updateConfigMap, getTokens.

pub mod jws;
pub mod token;

use std::collections::BTreeMap;

use flyball_bootstrap_tokens::{NAMESPACE, SELECTOR};
use flyball_sdk::prelude::*;
use flyball_sdk::{StringMap, debug};

use token::Token;

/// The only key to reconcile: the key of the ConfigMap.
const KEY: &str = "kube-public/cluster-info";
/// The ConfigMap's data key whose value is signed.
const SIGNED: &str = "kubeconfig";
/// The prefix of the keys of signatures. The id of the token follows.
const SIGNATURE: &str = "jws-kubeconfig-";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct ClusterInfo {
    #[view(path = "metadata", fields())]
    meta: Meta,
    #[view(path = "data")]
    data: StringMap,
}

/// The controller.
pub struct BootstrapSigner;

export!(BootstrapSigner);

impl Controller for BootstrapSigner {
    fn describe() -> Description {
        // The whole ConfigMap, from which the host builds the update.
        let cluster_info = watch::<ClusterInfo>()
            .fields(&["."])
            .namespace("kube-public")
            .field_selector("metadata.name=cluster-info")
            .enqueue(Mapping::key(KEY).on([DeltaType::Added, DeltaType::Modified]));
        let tokens = watch::<Token>()
            .namespace(NAMESPACE)
            .field_selector(SELECTOR)
            .enqueue(Mapping::key(KEY));
        describe("bootstrap-signer-controller", env!("CARGO_PKG_VERSION"))
            .watch(cluster_info)
            .watch(tokens)
            .queue("bootstrap_signer_queue")
            .permission(ClusterInfo::KIND, ["update"])
            .concurrency(1)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(info) = host.get_by_key::<ClusterInfo>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let Some(content) = info.data.get(SIGNED) else {
            debug!(host, "the ConfigMap {KEY} has no `{SIGNED}`");
            return Ok(Outcome::Done);
        };
        let tokens = host.list::<Token>().namespace(NAMESPACE).all()?;
        let now = host.now();
        let signatures = tokens
            .iter()
            .filter_map(|token| token.for_signing(now))
            .map(|(id, secret)| {
                (
                    format!("{SIGNATURE}{id}"),
                    jws::detached(content, id, &secret),
                )
            })
            .collect();
        let changes = changes(&info.data, &signatures);
        if !changes.is_empty() {
            let updated = host.update(ClusterInfo::KIND, &info.meta, &json!({"data": changes}));
            // A ConfigMap that has changed is signed again when the change arrives.
            return match updated {
                Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
                _ => Ok(Outcome::Done),
            };
        }
        Ok(Outcome::Done)
    }
}

/// Returns the merge patch of the data that brings the signatures up to date: each missing or different signature, and
/// null for signatures of other tokens.
fn changes(data: &StringMap, signatures: &StringMap) -> BTreeMap<String, Value> {
    let wrong = signatures
        .iter()
        .filter(|(key, signature)| data.get(*key) != Some(*signature));
    let stale = data
        .keys()
        .filter(|key| key.starts_with(SIGNATURE) && !signatures.contains_key(*key));
    wrong
        .map(|(key, signature)| (key.clone(), json!(signature)))
        .chain(stale.map(|key| (key.clone(), Value::Null)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> StringMap {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn only_differences_are_changed() {
        let data = map(&[
            ("kubeconfig", "c"),
            ("other", "o"),
            ("jws-kubeconfig-same00", "1"),
            ("jws-kubeconfig-other0", "2"),
            ("jws-kubeconfig-stale0", "3"),
            ("jws-kubeconfig-", "4"),
        ]);
        let signatures = map(&[
            ("jws-kubeconfig-same00", "1"),
            ("jws-kubeconfig-other0", "0"),
            ("jws-kubeconfig-new000", "5"),
        ]);
        let expected = json!({"jws-kubeconfig-other0": "0", "jws-kubeconfig-new000": "5",
                              "jws-kubeconfig-stale0": null, "jws-kubeconfig-": null});
        assert_eq!(json!(changes(&data, &signatures)), expected);
        assert!(changes(&map(&[("other", "o")]), &map(&[])).is_empty());
    }
}
