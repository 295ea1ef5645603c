//! The one check of a mutation by a guest.

use flyball_plugin::{Operation, Write};
use flyball_policy::Visible;
use flyball_policy::access::{MayWrite, Mutation, may_write};
use flyball_reads::live::selected_fields;
use flyball_types::{ApiError, Kind, Mask};

use crate::Writer;
use crate::journal::verb;
use crate::options::Options;

/// The longest body of a write in bytes: the API server's own limit.
pub(super) const MAX_BODY: usize = 3 << 20;
/// The longest options of a write in bytes.
const MAX_OPTIONS: usize = 16 << 10;

impl Writer {
    /// The one check of a mutation. Returns its options, and the policy's decision, which its requests need.
    pub(super) fn check(
        &self,
        write: &Write,
        kind: &Kind,
    ) -> Result<(Options, MayWrite), ApiError> {
        check_subresource(write)?;
        check_size(write)?;
        let (verb, subresource) = (verb(&write.operation), write.subresource());
        let namespace = &write.target.namespace;
        let mutation = Mutation {
            verb,
            kind,
            subresource,
            namespace,
        };
        let may_write = may_write(&self.policy, mutation)?;
        let visible = may_write.visible();
        let options = Options::parse(&write.options)?;
        let changes = !matches!(write.operation, Operation::Create { .. });
        if options.is_dry_run() && changes && *visible != Visible::All {
            return Err(ApiError::denied(format!(
                "the policy limits the fields that this plugin may read of {kind}, and a dry run tells whether a hidden field \
                 that can't change has a value: write without `dryRun`"
            )));
        }
        if let Operation::DeleteCollection {
            label_selector,
            field_selector,
        } = &write.operation
        {
            // The selection of objects to delete reveals the values of their fields.
            let compared = selected_fields(label_selector, field_selector)?;
            let compared = Mask::of(&compared).map_err(|e| ApiError::invalid(e.to_string()))?;
            visible.check(kind, &compared)?;
        }
        if let Operation::Patch { patch_type, patch } = &write.operation {
            let sees_all = *visible == Visible::All;
            match patch_type.as_str() {
                "json" if !sees_all => check_json_patch(kind, patch)?,
                "apply" => {
                    self.check_apply(write, kind, patch)?;
                    if !sees_all && !options.is_forced() {
                        return Err(ApiError::denied(format!(
                            "the policy limits the fields that this plugin may read of {kind}, and a conflict of `apply` tells \
                             whether others hold the same value: set `force`"
                        )));
                    }
                }
                _ => {}
            }
        }
        Ok((options, may_write))
    }

    /// `apply` creates an object that does not exist: without a grant to create it, the plugin's cache must have it. With a
    /// UID or on a subresource, it creates nothing.
    fn check_apply(&self, write: &Write, kind: &Kind, patch: &[u8]) -> Result<(), ApiError> {
        let target = &write.target;
        if !target.subresource.is_empty() {
            return Ok(());
        }
        let may_create = self.policy.check("create", kind, "", &target.namespace);
        let exists = || {
            let cached = self.cached.before(kind, &target.namespace, &target.name);
            cached.is_some()
        };
        match may_create {
            Err(denied) if !exists() && !names_uid(patch) => Err(ApiError::denied(format!(
                "{}; `apply` creates an object that does not exist",
                denied.message
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether an apply is of the object with a certain UID. The API server then answers with a conflict instead of creating an
/// object. A patch in YAML is not looked into.
fn names_uid(patch: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        uid: String,
    }
    serde_json::from_slice(patch).is_ok_and(|object: Object| !object.metadata.uid.is_empty())
}

/// `update` and `update-status` each have their own subresources. A subresource belongs to a named object: without the
/// name, the request would go to the collection of the objects themselves.
pub(super) fn check_subresource(write: &Write) -> Result<(), ApiError> {
    let subresource = &*write.target.subresource;
    match write.operation {
        Operation::Update { .. } if subresource == "status" => Err(ApiError::invalid(
            "`update` does not write the subresource `status`: use `update-status`",
        )),
        Operation::UpdateStatus { .. } if !subresource.is_empty() => Err(ApiError::invalid(
            format!("`update-status` takes no subresource, and has `{subresource}`"),
        )),
        Operation::DeleteCollection { .. }
            if !subresource.is_empty() || !write.target.name.is_empty() =>
        {
            Err(ApiError::invalid(
                "`delete-collection` takes neither a name nor a subresource",
            ))
        }
        _ if !subresource.is_empty() && write.target.name.is_empty() => Err(ApiError::invalid(
            format!("the subresource `{subresource}` belongs to an object: name it"),
        )),
        _ => Ok(()),
    }
}

/// Refuses documents that the API server would refuse, before the host parses them: a parsed document takes many times
/// its bytes.
fn check_size(write: &Write) -> Result<(), ApiError> {
    let body = write.operation.body_len();
    for (what, bytes, most) in [
        ("body", body, MAX_BODY),
        ("options", write.options.len(), MAX_OPTIONS),
    ] {
        if bytes > most {
            return Err(ApiError::full(format!(
                "the {what} of a write has {bytes} bytes, more than the limit of {most}"
            )));
        }
    }
    Ok(())
}

/// Refuses the operations of a JSON patch that read a field of the object, because their effect reveals the field's
/// value.
fn check_json_patch(kind: &Kind, patch: &[u8]) -> Result<(), ApiError> {
    #[derive(serde::Deserialize)]
    struct Step {
        op: String,
    }
    let steps: Vec<Step> = serde_json::from_slice(patch).map_err(|error| {
        ApiError::invalid(format!("the JSON patch of {kind} is malformed: {error}"))
    })?;
    match steps
        .iter()
        .find(|step| !matches!(step.op.as_str(), "add" | "remove" | "replace"))
    {
        None => Ok(()),
        Some(Step { op }) => Err(ApiError::denied(format!(
            "the policy limits the fields that this plugin may read of {kind}, and the operation `{}` of a JSON patch reads \
             others: use `add`, `remove` or `replace`",
            op.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apply_with_a_uid_is_told_from_one_that_may_create() {
        assert!(names_uid(br#"{"metadata": {"name": "a", "uid": "1"}}"#));
        for patch in [
            r#"{"kind": "ConfigMap"}"#,
            r#"{"metadata": {"uid": ""}}"#,
            r#"{"metadata": {"uid": null}}"#,
            r#"{"metadata": {"uid": "1"}, "metadata": {}}"#,
            r#"{"metadata": {"uid": "1", "uid": ""}}"#,
            "metadata: {uid: ''}",
        ] {
            assert!(!names_uid(patch.as_bytes()), "{patch}");
        }
    }
}
