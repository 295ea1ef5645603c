//! The one check of a mutation by a guest.

use flyball_plugin::{Operation, Write};
use flyball_types::{ApiError, Kind};

use crate::policy::Visible;
use crate::reads::access::{Read, access};
use crate::writer::Writer;
use crate::writer::journal::verb;

/// The longest body of a write in bytes: the API server's own limit.
pub(super) const MAX_BODY: usize = 3 << 20;
/// The longest options of a write in bytes.
const MAX_OPTIONS: usize = 16 << 10;

impl Writer {
    /// The one check of a mutation. Returns what the plugin may see of the answer.
    pub(super) fn check(&self, write: &Write, kind: &Kind) -> Result<Visible, ApiError> {
        check_subresource(write)?;
        check_size(write)?;
        let (verb, subresource) = (verb(&write.operation), write.subresource());
        let namespace = &write.target.namespace;
        self.policy.check(verb, kind, subresource, namespace)?;
        let answer = Read::Answer {
            verb,
            kind,
            subresource,
            namespace,
        };
        let visible = access(&self.policy, answer)?;
        if let Operation::Patch { patch_type, patch } = &write.operation
            && patch_type == "json"
            && self.policy.limits_fields(kind)
        {
            check_json_patch(kind, patch)?;
        }
        Ok(visible)
    }
}

/// `update` and `update-status` each have their own subresources.
pub(super) fn check_subresource(write: &Write) -> Result<(), ApiError> {
    let subresource = &*write.target.subresource;
    match write.operation {
        Operation::Update { .. } if subresource == "status" => Err(ApiError::invalid(
            "`update` does not write the subresource `status`: use `update-status`",
        )),
        Operation::UpdateStatus { .. } if !subresource.is_empty() => Err(ApiError::invalid(
            format!("`update-status` takes no subresource, and has `{subresource}`"),
        )),
        _ => Ok(()),
    }
}

/// Refuses what the API server would refuse, before the host parses it: a parsed document takes many times its bytes.
fn check_size(write: &Write) -> Result<(), ApiError> {
    let body = match &write.operation {
        Operation::Create { object } => object.len(),
        Operation::Update { change, .. } => change.len(),
        Operation::UpdateStatus {
            status, metadata, ..
        } => status.len() + metadata.len(),
        Operation::Patch { patch, .. } => patch.len(),
        Operation::Delete => 0,
        Operation::DeleteCollection {
            label_selector,
            field_selector,
        } => label_selector.len() + field_selector.len(),
    };
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

/// Refuses the operations of a JSON patch that read a field of the object: their effect shows what the field holds.
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
