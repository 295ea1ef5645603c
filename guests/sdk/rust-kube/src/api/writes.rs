//! Writes.

use std::fmt::Debug;

use either::Either;
use flyball_sdk::{Meta, PatchType, Write, merge};
use kube_core::{Resource, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Api, DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams, parse};
use crate::current;
use crate::error::{Error, Result};

/// Writes. Each write returns when the API server has answered. Joined writes run one after another.
impl<K: Resource + Clone + DeserializeOwned + Debug> Api<K> {
    /// Creates an object.
    ///
    /// # Errors
    /// The write failed.
    pub async fn create(&self, parameters: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let namespace = match self.namespace() {
            Some(namespace) => namespace,
            None => object.meta().namespace.as_deref().unwrap_or_default(),
        };
        let write = Write::create(self.kind(), namespace, &value(object)?);
        self.returned(with_post(write, parameters))
    }

    /// Patches an object.
    ///
    /// # Errors
    /// The write failed.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.patch_on("", name, parameters, patch)
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    /// The write failed.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.patch_on("status", name, parameters, patch)
    }

    /// Patches a subresource of an object. The answer must be an object of the type.
    ///
    /// # Errors
    /// The write failed.
    pub async fn patch_subresource<P: Serialize + Debug>(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.patch_on(subresource, name, parameters, patch)
    }

    /// Replaces an object. Fields that the type does not have are kept.
    ///
    /// # Errors
    /// `Conflict` if the object has another resource version than `object`; or the write failed.
    pub async fn replace(&self, name: &str, parameters: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let new = value(object)?;
        let base = self
            .at_version(name, object.meta().resource_version.as_deref())
            .await?;
        let meta = self.meta(name, &base);
        let mut change = merge::diff(&value(&base)?, &new);
        // Fields that the server sets are not a change.
        for field in [
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            if let Some(metadata) = change.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove(field);
            }
        }
        self.returned(with_post(
            Write::update(self.kind(), &meta, &change),
            parameters,
        ))
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_status(&self, name: &str, parameters: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let base = match object.meta().resource_version {
            Some(_) => object.clone(),
            None => self.at_version(name, None).await?,
        };
        let status = value(object)?["status"].take();
        let write = Write::update_status(self.kind(), &self.meta(name, &base), &status);
        self.returned(with_post(write, parameters))
    }

    /// Reads the status of an object, which is a part of it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_status(&self, name: &str) -> Result<K> {
        self.get(name).await
    }

    /// Deletes an object. Returns the status `Success`, also if the object waits for its finalizers.
    ///
    /// # Errors
    /// The write failed.
    pub async fn delete(&self, name: &str, parameters: &DeleteParams) -> Result<Either<K, Status>> {
        let write = Write::delete(self.kind(), self.namespace().unwrap_or_default(), name);
        self.deleted(write, parameters).map(Either::Right)
    }

    /// Deletes the objects that match the selectors. Returns the status `Success`.
    ///
    /// # Errors
    /// The write failed.
    pub async fn delete_collection(
        &self,
        parameters: &DeleteParams,
        selected: &ListParams,
    ) -> Result<Either<ObjectList<K>, Status>> {
        let write = Write::delete_collection(
            self.kind(),
            self.namespace().unwrap_or_default(),
            selected.label_selector.as_deref().unwrap_or_default(),
            selected.field_selector.as_deref().unwrap_or_default(),
        );
        self.deleted(write, parameters).map(Either::Right)
    }

    fn patch_on<P: Serialize + Debug>(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let (patch_type, body) = match patch {
            Patch::Apply(body) => (PatchType::Apply, value(body)?),
            Patch::Merge(body) => (PatchType::Merge, value(body)?),
            Patch::Strategic(body) => (PatchType::Strategic, value(body)?),
            #[cfg(feature = "jsonpatch")]
            Patch::Json(body) => (PatchType::Json, value(body)?),
            _ => {
                let message = "can't send this type of patch: a JSON patch needs the feature `jsonpatch` of flyball-kube";
                return Err(Error::local(400, "Invalid", message));
            }
        };
        self.patch_with(subresource, name, parameters, patch_type, &body)
    }

    /// Applies a patch of any type.
    pub(crate) fn patch_with(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PatchParams,
        patch_type: PatchType,
        body: &Value,
    ) -> Result<K> {
        let namespace = self.namespace().unwrap_or_default();
        let write = Write::patch(self.kind(), namespace, name, patch_type, body).on(subresource);
        let mut write = with_common(
            write,
            parameters.dry_run,
            parameters.field_manager.as_deref(),
        );
        if parameters.force {
            write = write.force();
        }
        if let Some(validation) = &parameters.field_validation {
            write = write.option("fieldValidation", validation.as_str());
        }
        self.returned(write)
    }

    /// Runs a write and returns the object.
    fn returned(&self, write: Write) -> Result<K> {
        current::with(|host, _| {
            let answer = host.write(write.returning(&["."]))?;
            parse(&answer.0)
        })
    }

    fn deleted(&self, mut write: Write, parameters: &DeleteParams) -> Result<Status> {
        if let Value::Object(options) = value(parameters)? {
            write.options = options;
        }
        current::with(|host, _| {
            host.write(write)?;
            Ok(Status::success())
        })
    }

    /// Reads the object at this version, from the cache if the cache has this version.
    async fn at_version(&self, name: &str, version: Option<&str>) -> Result<K> {
        let is_wanted = |found: &K| {
            version.is_none_or(|version| found.meta().resource_version.as_deref() == Some(version))
        };
        if let Some(found) = self.get_opt(name).await?
            && is_wanted(&found)
        {
            return Ok(found);
        }
        let live = current::with(|host, _| self.live(host, name))?;
        live.filter(is_wanted).ok_or_else(|| {
            let message = format!("{} {name:?} has been modified or deleted", self.kind());
            Error::local(409, "Conflict", &message)
        })
    }

    /// The metadata of an object that a write needs.
    fn meta(&self, name: &str, object: &K) -> Meta {
        let meta = object.meta();
        Meta {
            name: name.into(),
            namespace: self.namespace().unwrap_or_default().into(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            ..Meta::default()
        }
    }
}

fn with_post(write: Write, parameters: &PostParams) -> Write {
    with_common(
        write,
        parameters.dry_run,
        parameters.field_manager.as_deref(),
    )
}

fn with_common(write: Write, is_dry_run: bool, manager: Option<&str>) -> Write {
    let write = match manager {
        Some(manager) => write.field_manager(manager),
        None => write,
    };
    if is_dry_run {
        return write.option("dryRun", json!(["All"]));
    }
    write
}

fn value(body: &impl Serialize) -> Result<Value> {
    serde_json::to_value(body).map_err(Error::SerdeError)
}
