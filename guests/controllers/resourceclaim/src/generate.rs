//! Creates claims from templates.
//!
//! The errors are texts for people, which events show.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: handleClaim, handlePodGroupClaim, findPodResourceClaim,
//! findPodGroupResourceClaim, podGroupNeedsWork.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go: Name, NameFromPodGroup.

use flyball_device_claims::{ClaimRef, Name, name};
use flyball_sdk::prelude::*;

use crate::bind;
use crate::gates::{Gates, POD_GROUPS};
use crate::metrics;
use crate::views::{CLAIM_NAME, Claim, Pod, PodGroup, Spec, Template, User};

/// The longest prefix of a generated name. The API server appends 5 characters, and names have 63 at most; one is left
/// for a hyphen.
const MAX_PREFIX: usize = 57;

/// Returns the generated claim of a pod to record in its status, and creates it if it does not exist. `None` if nothing
/// is to be recorded.
pub(crate) fn for_pod(
    host: &Host,
    gates: Gates,
    pod: &Pod,
    group: Option<&PodGroup>,
    claim: &ClaimRef,
) -> Result<Option<String>, String> {
    let is_own = |found: &Claim| bind::check_owner(gates, pod, found).is_ok();
    let Some(template) = wanted_template(host, gates, &pod.user(), claim, is_own)? else {
        return Ok(None);
    };
    let user = bind::user(pod, group, claim);
    if user.kind == PodGroup::KIND && !gates.pod_groups {
        return Err(format!(
            "claim {} is a PodGroup claim but the {POD_GROUPS} feature is disabled",
            claim.name
        ));
    }
    match existing(host, &user, claim)? {
        // The PodGroup's own reconcile creates it.
        None if user.kind == PodGroup::KIND => Ok(None),
        None => create(host, gates, &user, claim, template).map(Some),
        found => Ok(found),
    }
}

/// Does the same as [`for_pod`], for a user that doesn't share its claims.
pub(crate) fn for_user(
    host: &Host,
    gates: Gates,
    user: &User,
    claim: &ClaimRef,
) -> Result<Option<String>, String> {
    let is_own = |found: &Claim| found.meta.is_controlled_by(&user.meta.uid);
    let Some(template) = wanted_template(host, gates, user, claim, is_own)? else {
        return Ok(None);
    };
    match existing(host, user, claim)? {
        None => create(host, gates, user, claim, template).map(Some),
        found => Ok(found),
    }
}

/// Whether a PodGroup lacks a claim.
pub(crate) fn group_needs_work(host: &Host, user: &User) -> Result<bool, Error> {
    for claim in user.claims {
        match name(claim, user.recorded) {
            Name::NotYet | Name::Unsupported => return Ok(true),
            Name::Generated(name) if host.get::<Claim>(&user.meta.namespace, name)?.is_none() => {
                return Ok(true);
            }
            Name::Generated(_) | Name::Given(_) | Name::Unneeded => {}
        }
    }
    Ok(false)
}

/// Returns the name of a reference's template if the user has no claim from it.
fn wanted_template<'a>(
    host: &Host,
    gates: Gates,
    user: &User,
    claim: &'a ClaimRef,
    is_own: impl FnOnce(&Claim) -> bool,
) -> Result<Option<&'a str>, String> {
    match name(claim, user.recorded) {
        Name::Given(_) | Name::Unneeded => return Ok(None),
        Name::Generated(name) => {
            let found = recorded(host, gates, &user.meta.namespace, name)?;
            if found.as_ref().is_some_and(is_own) {
                return Ok(None);
            }
        }
        Name::NotYet => {}
        Name::Unsupported => {
            let key = user.meta.key();
            // The library quotes the names only for pods.
            let reference = match user.kind {
                PodGroup::KIND => format!("PodGroup {key}, spec.resourceClaim {}", claim.name),
                _ => format!("pod \"{key}\", spec.resourceClaim {:?}", claim.name),
            };
            return Err(format!(
                "checking for claim before creating it: {reference}: none of the supported fields are set"
            ));
        }
    }
    Ok(claim.resource_claim_template_name.as_deref())
}

/// Returns the claim that a status names. If the cache does not have it, the API server is asked, except before Kubernetes
/// 1.37: another process may have created it just now.
fn recorded(
    host: &Host,
    gates: Gates,
    namespace: &str,
    name: &str,
) -> Result<Option<Claim>, String> {
    let cached = host
        .get(namespace, name)
        .map_err(|error| error.to_string())?;
    if cached.is_some() || !gates.since_1_37 {
        return Ok(cached);
    }
    let live = host.live().get(namespace, name);
    live.map_err(|error| format!("checking claim existence: {}", error.message()))
}

/// Returns the name of the claim that was created for a reference. The user's status does not name it if the status
/// could not be written.
fn existing(host: &Host, user: &User, claim: &ClaimRef) -> Result<Option<String>, String> {
    let owned = host
        .list::<Claim>()
        .namespace(&user.meta.namespace)
        .controller(&user.meta.uid)
        .all()
        .map_err(|error| error.to_string())?;
    let is_it = |found: &Claim| found.meta.annotation(CLAIM_NAME) == Some(&claim.name);
    Ok(owned.into_iter().find(is_it).map(|found| found.meta.name))
}

/// Creates a claim and returns its name.
fn create(
    host: &Host,
    gates: Gates,
    user: &User,
    claim: &ClaimRef,
    template_name: &str,
) -> Result<String, String> {
    let template: Option<Template> = host
        .get(&user.meta.namespace, template_name)
        .map_err(|error| error.to_string())?;
    let missing = || {
        format!(
            "resource claim template {template_name:?}: resourceclaimtemplate.resource.k8s.io {template_name:?} not found"
        )
    };
    let template = template.ok_or_else(missing)?;
    let spec: Spec = template
        .spec
        .parse()
        .map_err(|error| error.to_string())?
        .unwrap_or_default();
    check_gates(gates, &spec)?;
    let write = Write::create(
        Claim::KIND,
        &user.meta.namespace,
        &new_claim(host, user, claim, template),
    );
    let created = host.write(write.returning(&["metadata.name"]));
    let is_admin = spec.needs_admin_access();
    metrics::count_creation(host, gates, user, created.is_ok(), is_admin);
    // The claim's own name is not known yet. kube-controller-manager's message lacks it, too.
    let answer = created.map_err(|error| format!("create ResourceClaim : {}", error.message))?;
    flyball_pods::created_name(&answer).map_err(|error| error.to_string())
}

fn check_gates(gates: Gates, spec: &Spec) -> Result<(), String> {
    if !gates.admin_access && spec.needs_admin_access() {
        return Err("admin access is requested, but the feature is disabled".into());
    }
    if !gates.prioritized_list && spec.has_prioritized_list() {
        return Err(
            "template includes a prioritized list of subrequests, but the feature is disabled"
                .into(),
        );
    }
    Ok(())
}

fn new_claim(host: &Host, user: &User, claim: &ClaimRef, template: Template) -> Value {
    let owner = OwnerReference {
        controller: true,
        ..user.meta.owner_reference(user.kind_of_release(host))
    };
    let mut annotations = template.inherited.annotations;
    annotations.insert(CLAIM_NAME.into(), claim.name.clone());
    json!({
        "metadata": {
            "generateName": name_prefix(&user.meta.name, &claim.name),
            "ownerReferences": [owner],
            "annotations": annotations,
            "labels": template.inherited.labels,
        },
        "spec": template.spec,
    })
}

/// Returns the prefix of a claim's name. If it is too long, both names are cut in proportion to their lengths, so that
/// something is left of each.
pub(crate) fn name_prefix(user: &str, claim: &str) -> String {
    let whole = format!("{user}-{claim}-");
    if whole.len() <= MAX_PREFIX {
        return whole;
    }
    let cut = |name: &str| name[..name.len() * MAX_PREFIX / whole.len()].to_owned();
    format!("{}-{}", cut(user), cut(claim))
}
