//! Writes to the fake cluster: the plugin's permissions, injected failures, and the server's
//! response.

use flyball_types::description::{Permission, Watch};
use flyball_types::{ApiError, FieldPath, FieldSelector, LabelSelector, Mask};
use serde_json::{Value, json};

use crate::log::Level;
use crate::write::{Action, PatchType, Propagation, Write};

use super::apply::Writer;
use super::reads::{invalid, mask, meta, prune};
use super::records::Logged;
use super::schema::FieldValidation;
use super::store::{DeleteOptions, Id, text};
use super::{ClusterState, Written, kind_of};

impl ClusterState {
    pub(super) fn write(&mut self, write: Write) -> Result<Vec<u8>, ApiError> {
        let Write {
            target,
            action,
            options,
            returns,
        } = write;
        let (verb, bytes) = match &action {
            Action::Create(object) => ("create", object.as_slice()),
            Action::Update(_, body) | Action::UpdateStatus { status: body, .. } => {
                ("update", body.as_slice())
            }
            Action::Patch(_, patch) => ("patch", patch.as_slice()),
            Action::Delete => ("delete", b"null".as_slice()),
            Action::DeleteCollection(..) => ("deletecollection", b"null".as_slice()),
        };
        let mut body: Value = serde_json::from_slice(bytes).map_err(invalid)?;
        if let Action::UpdateStatus { metadata, .. } = &action {
            body = json!({"status": body});
            if !metadata.is_empty() {
                body["metadata"] = serde_json::from_slice(metadata).map_err(invalid)?;
            }
        }
        let options = Value::Object(options);
        let mut id = Id::new(&target.kind, &target.namespace, &target.name);
        let subresource = subresource(&action, target.subresource)?;
        let result = self
            .admit(verb, &target.kind, &subresource, &target.namespace)
            .and_then(|()| {
                let namespace = &target.namespace;
                self.admit_base(&action, &target.kind, &subresource, namespace)
            })
            .and_then(|()| self.apply(&id, &subresource, &action, &body, &options));
        let warnings = self.store.take_warnings();
        if let (Ok(object), true) = (&result, id.name.is_empty()) {
            id.name = text(object, "/metadata/name").into();
        }
        if id.name.is_empty() {
            id.name = text(&body, "/metadata/name").into();
        }
        let written = Written {
            verb: verb.into(),
            kind: id.kind,
            namespace: id.namespace,
            name: id.name,
            subresource,
            patch_type: match action {
                Action::Patch(patch_type, _) => Some(patch_type),
                _ => None,
            },
            body,
            options,
            warnings,
            error: result.as_ref().err().cloned(),
        };
        self.log_warnings(&written);
        self.writes.push(written);
        let object = result?;
        if returns.is_empty() {
            Ok(Vec::new())
        } else {
            prune(&object, &mask(&returns)?)
        }
    }

    fn apply(
        &mut self,
        id: &Id,
        subresource: &str,
        action: &Action,
        body: &Value,
        options: &Value,
    ) -> Result<Value, ApiError> {
        self.store.field_validation = FieldValidation::of(options);
        let own = self.description.as_ref().map(|own| own.name.clone());
        let manager = options["fieldManager"].as_str().map(str::to_owned);
        let force = options["force"] == true;
        if let Action::Patch(patch_type, _) = action {
            check_apply_options(*patch_type, manager.is_some(), force)?;
        }
        // Without a field manager, the API server uses the name of the user agent.
        let manager = manager.or(own).unwrap_or_else(|| "test".into());
        let writer = Writer {
            manager: &manager,
            force,
        };
        if let (Action::Create(_), Some(answer)) = (action, self.take_answer(&id.kind)) {
            return Ok(answer);
        }
        match action {
            Action::Create(_) if subresource == "eviction" => {
                self.store.delete(id, &DeleteOptions::default())
            }
            Action::Create(_) if !subresource.is_empty() => Ok(body.clone()),
            Action::Create(_) => self
                .store
                .create(&id.kind, &id.namespace, body.clone(), writer),
            Action::Update(version, _) => self.store.update(id, subresource, version, body, writer),
            Action::UpdateStatus {
                resource_version, ..
            } => self.store.update_status(id, resource_version, body, writer),
            Action::Patch(patch_type, _) => {
                self.store.patch(id, subresource, *patch_type, body, writer)
            }
            Action::Delete => self.store.delete(id, &delete_options(options)),
            Action::DeleteCollection(labels, fields) => {
                let labels: LabelSelector = labels.parse().map_err(invalid)?;
                let selector: FieldSelector = fields.parse().map_err(invalid)?;
                let matches = |object: &&Value| {
                    let field =
                        |path: &FieldPath| path.lookup(object).first().copied().unwrap_or_default();
                    text(object, "/metadata/namespace") == id.namespace
                        && labels.matches(&meta(object).labels)
                        && selector.matches(field)
                };
                let ids: Vec<Id> = self
                    .store
                    .of_kind(&id.kind)
                    .filter(matches)
                    .map(Id::of_object)
                    .collect();
                let options = delete_options(options);
                ids.iter()
                    .try_for_each(|id| self.store.delete(id, &options).map(drop))?;
                Ok(json!({}))
            }
        }
    }

    /// Logs the server's warnings about a write, as the host does.
    fn log_warnings(&mut self, written: &Written) {
        for warning in &written.warnings {
            let target = written.target();
            if self.shows_warnings {
                eprintln!("the API server warns about `{target}`: {warning}");
            }
            self.logs.push(Logged {
                level: Level::Warn,
                message: format!("the API server warns: {warning}"),
                fields: vec![("write".into(), target)],
            });
        }
    }

    /// Removes the next answer that the test has set for a kind.
    fn take_answer(&mut self, kind: &str) -> Option<Value> {
        let at = self.answers.iter().position(|(own, _)| own == kind)?;
        Some(self.answers.remove(at).1)
    }

    /// Whether the whole object of an update is available: from the cache, if the plugin declares
    /// enough of it, or by a `get`, for which it needs permission. A Scale is never cached.
    fn admit_base(
        &self,
        action: &Action,
        kind: &str,
        subresource: &str,
        namespace: &str,
    ) -> Result<(), ApiError> {
        let is_status = matches!(action, Action::UpdateStatus { .. });
        let (Action::Update(..) | Action::UpdateStatus { .. }, Some(description)) =
            (action, &self.description)
        else {
            return Ok(());
        };
        let of_other_kind = if subresource == "scale" { "scale" } else { "" };
        let is_enough = |watch: &Watch| {
            let mask = Mask::parse(&watch.fields).unwrap_or_default();
            watch
                .kind
                .as_ref()
                .is_some_and(|own| own.to_string() == kind)
                && of_other_kind.is_empty()
                && (mask.is_whole() || is_status && mask.covers(Mask::metadata()))
        };
        let may_get = |permission: &Permission| {
            asks(permission, "get", kind, of_other_kind) && is_for(permission, namespace)
        };
        if description.watches.iter().any(is_enough) || description.permissions.iter().any(may_get)
        {
            return Ok(());
        }
        let missing = ApiError::not_asked("get", kind, of_other_kind, "").message;
        Err(ApiError::denied(format!(
            "an update needs more of {kind} than the plugin keeps, and {missing}"
        )))
    }

    /// Fails if the plugin does not request this verb in this namespace, or if a failure is injected.
    pub(super) fn admit(
        &mut self,
        verb: &str,
        kind: &str,
        subresource: &str,
        namespace: &str,
    ) -> Result<(), ApiError> {
        let whole = if subresource.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}/{subresource}")
        };
        if let Some(description) = &self.description {
            let asked = || {
                let permissions = description.permissions.iter();
                permissions.filter(|asked| asks(asked, verb, kind, subresource))
            };
            if !asked().any(|permission| is_for(permission, namespace)) {
                let place = asked().next().map_or("", |_| namespace);
                return Err(ApiError::not_asked(verb, kind, subresource, place));
            }
        }
        self.admit_rate()?;
        self.fail_if_due(verb, &whole)
    }

    /// Fails if the rate limit is reached.
    pub(super) fn admit_rate(&mut self) -> Result<(), ApiError> {
        let now = self.store.now;
        self.rate_limit
            .as_mut()
            .map_or(Ok(()), |limit| limit.admit(now))
    }

    /// Fails if a failure is injected.
    pub(super) fn fail_if_due(&mut self, verb: &str, whole: &str) -> Result<(), ApiError> {
        let mut due = None;
        for (at, fault) in self
            .faults
            .iter_mut()
            .enumerate()
            .filter(|(_, fault)| fault.verb == verb && fault.kind == whole)
        {
            match fault.skip {
                0 => due = due.or(Some(at)),
                _ => fault.skip -= 1,
            }
        }
        due.map_or(Ok(()), |at| Err(self.faults.remove(at).error))
    }
}

/// Whether a permission is about a verb on a kind and subresource, in some namespace.
fn asks(permission: &Permission, verb: &str, kind: &str, subresource: &str) -> bool {
    permission.kind.matches(&kind_of(kind))
        && (permission.subresource == subresource || permission.subresource == "*")
        && (permission.verbs.contains(verb) || permission.verbs.contains("*"))
}

/// Whether a permission covers a namespace. An empty one stands for all, and for cluster-scoped objects.
fn is_for(permission: &Permission, namespace: &str) -> bool {
    permission.namespaces.is_empty() || permission.namespaces.contains(namespace)
}

/// Fails if an apply has no field manager, or if another patch is forced.
fn check_apply_options(
    patch_type: PatchType,
    has_manager: bool,
    force: bool,
) -> Result<(), ApiError> {
    let refuse = |message| Err(ApiError::of_server(422, "Invalid", message));
    match patch_type {
        PatchType::Apply if !has_manager => refuse("fieldManager: is required for apply patch"),
        PatchType::Apply => Ok(()),
        _ if force => refuse("force: may not be specified for non-apply patch"),
        _ => Ok(()),
    }
}

/// Returns the subresource of a write.
fn subresource(action: &Action, target: String) -> Result<String, ApiError> {
    match action {
        Action::Update(..) if target == "status" => Err(ApiError::invalid(
            "`update` does not write a status: use `update-status`",
        )),
        Action::UpdateStatus { .. } if !target.is_empty() => Err(ApiError::invalid(format!(
            "`update-status` takes no subresource, and has `{target}`"
        ))),
        Action::UpdateStatus { .. } => Ok("status".into()),
        _ => Ok(target),
    }
}

fn delete_options(options: &Value) -> DeleteOptions {
    let precondition = |name| options["preconditions"][name].as_str().map(str::to_owned);
    DeleteOptions {
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        grace_seconds: options["gracePeriodSeconds"].as_i64(),
        propagation: match options["propagationPolicy"].as_str() {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::prelude::*;
    use crate::testing::Cluster;

    struct Writer;

    impl Controller for Writer {
        fn describe() -> Description {
            describe("writer", "1.0.0")
                .queue("writer")
                .permission("v1/ConfigMap", ["create"])
                .in_namespaces(["a", "b"])
        }

        fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
            let namespace = &request.key.namespace;
            host.create(
                "v1/ConfigMap",
                namespace,
                &json!({"metadata": {"name": "x"}}),
            )?;
            host.create("v1/Secret", namespace, &json!({"metadata": {"name": "x"}}))?;
            Ok(Outcome::Done)
        }
    }

    #[test]
    fn a_write_beyond_the_description_is_denied_with_the_line_to_add() {
        let cluster = Cluster::new();
        let failed = |key: &str| cluster.reconcile::<Writer>(key).unwrap_err().to_string();
        let elsewhere = failed("c/x");
        assert!(
            elsewhere.contains(
                "the plugin does not ask to create v1/ConfigMap in the namespace c: add \
                 `permission(\"v1/ConfigMap\", \"create\")` to its description"
            ),
            "{elsewhere}"
        );
        let other = failed("b/x");
        assert!(
            other.contains("does not ask to create v1/Secret: add"),
            "{other}"
        );
        assert_eq!(cluster.written()[1], "create v1/ConfigMap b/x");
    }
}
