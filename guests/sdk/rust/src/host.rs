//! The host's functions for a controller: typed reads, writes, events, the clock and the other imports.

use flyball_types::{ApiError, Query, Reference};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::{BatchBuilder, TaggedBatch};
use crate::certificate::CertificateTemplate;
use crate::describe::{EMULATED_VERSION, feature_gate_key};
use crate::error::{Context, Error};
use crate::event::Event;
use crate::imports::Imports;
use crate::key::Key;
use crate::list::List;
use crate::live::Live;
use crate::malformed::parse;
use crate::memo::Memo;
use crate::meta::Meta;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::reference::ObjectReference;
use crate::time::Time;
use crate::view::View;
use crate::write::{Answer, PatchType, Write};

/// The number of writes in a batch of [`Host::delete_all`].
const DELETED_AT_ONCE: usize = 100;

/// The minor number of the emulated release; `None` if it is the current one.
fn emulated_minor(imports: &dyn Imports) -> Option<u32> {
    let emulated = imports.config_get(EMULATED_VERSION)?;
    emulated.rsplit('.').next()?.parse().ok()
}

/// See [`Host::kind`]. Views without former kinds cost no call of the host.
pub(crate) fn kind_of_release<T: View>(imports: &dyn Imports) -> &'static str {
    let emulated = match T::FORMER {
        [] => None,
        _ => emulated_minor(imports),
    };
    let former = T::FORMER
        .iter()
        .filter(|(last, _)| emulated.is_some_and(|emulated| emulated <= *last));
    former
        .min_by_key(|(last, _)| *last)
        .map_or(T::KIND, |(_, kind)| kind)
}

/// The host. [`export!`](crate::export) creates it in the sandbox, and [`testing::Cluster`](crate::testing::Cluster) in
/// tests.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    imports: &'a dyn Imports,
}

impl<'a> Host<'a> {
    /// A host on these imports.
    pub fn new(imports: &'a dyn Imports) -> Self {
        Self { imports }
    }

    /// The untyped imports.
    pub fn imports(&self) -> &'a dyn Imports {
        self.imports
    }
}

/// Cached reads.
impl<'a> Host<'a> {
    /// Reads the object with this name; `namespace` is empty if it is cluster-scoped.
    ///
    /// # Errors
    /// The plugin may not read it, or the object does not fit the view.
    pub fn get<T: View>(&self, namespace: &str, name: &str) -> Result<Option<T>, Error> {
        let kind = self.kind::<T>();
        let found = self.imports.lister_get(kind, namespace, name, T::READS)?;
        found
            .map(|bytes| parse(&bytes, kind, namespace, name))
            .transpose()
    }

    /// Reads the object with this key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_by_key<T: View>(&self, key: &Key) -> Result<Option<T>, Error> {
        self.get(&key.namespace, &key.name)
    }

    /// Lists the objects of the view's kind: `host.list::<Pod>().namespace(ns).orphans().all()?`.
    pub fn list<T: View>(&self) -> List<'a, T> {
        List::new(self.imports)
    }

    /// Returns the number of objects of a kind that is known only at run time, such as one that a watch discovered.
    /// Without a namespace, the objects of all namespaces are counted.
    ///
    /// # Errors
    /// The plugin does not watch the kind.
    pub fn count_of(&self, kind: &str, namespace: &str) -> Result<u32, Error> {
        Ok(self.imports.lister_count(Query {
            kind: kind.into(),
            namespace: namespace.into(),
            ..Query::default()
        })?)
    }
}

impl Host<'_> {
    /// Whether the deletion of this object was observed; false means unknown. The host remembers only objects for whose
    /// deletion the mapping [`dependents`](crate::describe::Mapping::dependents) found dependents.
    pub fn deletion_observed(&self, object: &Reference) -> bool {
        let Reference {
            kind,
            namespace,
            name,
            uid,
        } = object.clone();
        self.imports.lister_deletion_observed(&ObjectReference {
            kind: kind.to_string(),
            namespace,
            name,
            uid,
            resource_version: String::new(),
        })
    }
}

/// Handles of other interfaces.
impl<'a> Host<'a> {
    /// Live reads from the API server.
    pub fn live(&self) -> Live<'a> {
        Live::new(self.imports)
    }

    /// The plugin's workqueues.
    pub fn queue(&self) -> Queue<'a> {
        Queue {
            imports: self.imports,
        }
    }

    /// The plugin's own metrics.
    pub fn metrics(&self) -> Metrics<'a> {
        Metrics {
            imports: self.imports,
        }
    }

    /// The plugin's memo.
    pub fn memo(&self) -> Memo<'a> {
        Memo {
            imports: self.imports,
        }
    }
}

/// Writes.
impl<'a> Host<'a> {
    /// A batch of writes that the host runs concurrently.
    pub fn batch(&self) -> BatchBuilder<'a> {
        BatchBuilder::new(self.imports)
    }

    /// A batch of writes, each with a tag that is returned with its result.
    pub fn tagged_batch<T>(&self) -> TaggedBatch<'a, T> {
        TaggedBatch::new(self.batch())
    }

    /// Runs one write.
    ///
    /// # Errors
    /// The API server or the host refused the write.
    pub fn write(&self, write: Write) -> Result<Answer, ApiError> {
        self.batch()
            .with(write)
            .run()
            .pop()
            .unwrap_or_else(|| Err(ApiError::timeout("the host returned no result")))
    }

    /// Runs [`Write::create`] and returns no fields.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn create(
        &self,
        kind: &str,
        namespace: &str,
        object: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::create(kind, namespace, object))
    }

    /// Runs [`Write::update`]. The host builds the whole object from its cache if the watch of the kind declares all
    /// fields (`.`); otherwise it reads the object first, with one more request.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` if the object has changed since it was read.
    pub fn update(
        &self,
        kind: &str,
        meta: &Meta,
        change: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::update(kind, meta, change))
    }

    /// Runs [`Write::update_status`]. The host builds the whole object from its cache if the watch of the kind declares
    /// `metadata`; otherwise it reads the object first, with one more request.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_status(
        &self,
        kind: &str,
        meta: &Meta,
        status: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::update_status(kind, meta, status))
    }

    /// Runs [`Write::patch`].
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch_type: PatchType,
        patch: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::patch(kind, namespace, name, patch_type, patch))
    }

    /// Runs [`Write::delete_exactly`].
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` if the name belongs to another object.
    pub fn delete(&self, kind: &str, meta: &Meta) -> Result<Answer, ApiError> {
        self.write(Write::delete_exactly(kind, meta))
    }

    /// Deletes objects as [`delete`](Self::delete) does, 100 at a time. An object that was deleted or replaced since it
    /// was read is left alone. A failure does not keep the others.
    ///
    /// # Errors
    /// The joined failures, each with the object's key.
    pub fn delete_all(&self, kind: &str, metas: &[Meta]) -> Result<(), Error> {
        let mut failures = Vec::new();
        for some in metas.chunks(DELETED_AT_ONCE) {
            let writes = some
                .iter()
                .map(|meta| (meta, Write::delete_exactly(kind, meta)));
            for (meta, result) in self.tagged_batch().extend(writes).run() {
                let result = match result {
                    Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
                    _ => Ok(()),
                };
                failures.extend(result.doing(|| format!("deleting {}", meta.key())).err());
            }
        }
        Error::join(failures).map_or(Ok(()), Err)
    }
}

/// Events, clock and configuration.
impl Host<'_> {
    /// Emits an event. Never fails or blocks.
    pub fn emit(&self, event: Event<'_>) {
        let Event {
            about,
            event_type,
            reason,
            message,
            options,
        } = event;
        self.imports
            .events_emit(about, event_type, reason, message, &options);
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.imports.clock_now()
    }

    /// The operator's value of a configuration key, or else its declared default.
    pub fn config(&self, key: &str) -> Option<String> {
        self.imports.config_get(key)
    }

    /// Whether a feature gate of Kubernetes is on. False if the description does not declare it with
    /// [`feature_gate`](crate::describe::Description::feature_gate).
    pub fn feature_enabled(&self, name: &str) -> bool {
        self.feature_enabled_or(name, false)
    }

    /// Whether a feature gate of Kubernetes is on, given its default. For
    /// [`describe_configured`](crate::Controller::describe_configured), where the declared defaults are not available.
    pub fn feature_enabled_or(&self, name: &str, default: bool) -> bool {
        let value = self.config(&feature_gate_key(name));
        value.map_or(default, |value| value == "true")
    }

    /// Whether the controller is to behave as in Kubernetes 1.`minor` or later: true unless `--emulated-version` names
    /// an earlier release. True if the description does not declare
    /// [`emulated_version`](crate::describe::Description::emulated_version).
    pub fn release_at_least(&self, minor: u32) -> bool {
        emulated_minor(self.imports).is_none_or(|emulated| emulated >= minor)
    }

    /// The kind of a view in the emulated release. It differs from [`View::KIND`] where an earlier release has
    /// [another version](View::FORMER) of the API. Writes and the bodies of new objects name it, and
    /// [`kind_of_release`](crate::describe::Description::kind_of_release) puts it into the description.
    pub fn kind<T: View>(&self) -> &'static str {
        kind_of_release::<T>(self.imports)
    }
}

/// Signing with keys of the host, which the operator names. Needs the import `signer`.
impl Host<'_> {
    /// Signs a JSON Web Token with these claims and returns it in compact form.
    ///
    /// # Errors
    /// The plugin may not use the key, or the host has no such key.
    pub fn sign_jwt(&self, key: &str, claims: &impl Serialize) -> Result<String, ApiError> {
        let claims = serde_json::to_vec(claims).expect("a map with string keys is valid JSON");
        self.imports.signer_sign_jwt(key, &claims)
    }

    /// Verifies a token's signature with this key and returns its claims. Does not check the claims, such as the
    /// expiry.
    ///
    /// # Errors
    /// As [`sign_jwt`](Self::sign_jwt); `Unauthorized` if the key did not sign the token; or the claims are not a valid
    /// `T`.
    pub fn verify_jwt<T: DeserializeOwned>(&self, key: &str, token: &str) -> Result<T, Error> {
        let claims = self.imports.signer_verify_jwt(key, token)?;
        flyball_types::read(&claims)
            .map_err(|error| Error::malformed("the claims of a token", error))
    }
}

/// Certificates by authorities of the host, which the operator names for signers. Needs the import `signer`.
impl Host<'_> {
    /// Returns the certificates of a signer's authority in DER. The first one is of the key that signs.
    ///
    /// # Errors
    /// The plugin may not use the signer, or the host holds no authority for it (`NotFound`).
    pub fn certificate_authority(&self, signer: &str) -> Result<Vec<Vec<u8>>, ApiError> {
        self.imports.signer_certificate_authority(signer)
    }

    /// Returns a certificate in DER, signed by a signer's authority.
    ///
    /// # Errors
    /// As [`certificate_authority`](Self::certificate_authority); the plugin may not sign for this subject (`Denied`);
    /// or the template is malformed, or its key did not sign the request (`Invalid`).
    pub fn sign_certificate(
        &self,
        signer: &str,
        template: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError> {
        self.imports.signer_sign_certificate(signer, template)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::describe::{watch, watch_kind};
    use crate::prelude::{
        Controller, Description, Error, Host, Meta, Outcome, Request, View, describe,
    };
    use crate::testing::{Cluster, permissions};

    #[test]
    fn a_feature_gate_has_its_configured_value_or_its_default_and_is_off_if_undeclared() {
        struct Gated;
        impl Controller for Gated {
            fn describe() -> Description {
                describe("gated", "1.0.0")
                    .queue("gated")
                    .feature_gate("On", true)
                    .feature_gate("Off", false)
            }
            fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
                let enabled = ["On", "Off", "Undeclared"].map(|gate| host.feature_enabled(gate));
                Err(Error::terminal(format!("{enabled:?}")))
            }
        }
        let cluster = Cluster::new();
        let enabled = || cluster.reconcile::<Gated>("a").unwrap_err().to_string();
        assert_eq!(enabled(), "[true, false, false]");
        cluster.set_config("feature-gates.On", "false");
        cluster.set_config("feature-gates.Off", "true");
        assert_eq!(enabled(), "[false, true, false]");
    }

    #[test]
    fn a_view_has_the_kind_of_the_emulated_release() {
        #[derive(View, Clone, Debug, Default)]
        #[view(
            kind = "x.io/v1/Sample",
            until(36, "x.io/v1beta1/Sample"),
            until(34, "x.io/v1alpha1/Sample")
        )]
        struct Sample {
            #[view(path = "metadata", fields())]
            meta: Meta,
        }
        struct Sampler;
        impl Controller for Sampler {
            fn describe() -> Description {
                describe("sampler", "1.0.0")
                    .watch(watch::<Sample>())
                    .watch(watch_kind("v1/Pod"))
                    .index("by-size", Sample::KIND, "spec.size")
                    .queue("sampler")
                    .permission(Sample::KIND, ["delete"])
                    .permission("v1/Pod", ["delete"])
            }
            fn describe_configured(host: &Host) -> Description {
                Self::describe().kind_of_release::<Sample>(host)
            }
            fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
                if let Some(found) = host.get_by_key::<Sample>(&request.key)? {
                    assert_eq!(host.list::<Sample>().all()?.len(), 1);
                    host.delete(host.kind::<Sample>(), &found.meta)?;
                }
                Ok(Outcome::Done)
            }
        }
        for (release, version) in [
            (None, "v1"),
            (Some("1.37"), "v1"),
            (Some("1.36"), "v1beta1"),
            (Some("1.35"), "v1beta1"),
            (Some("1.34"), "v1alpha1"),
            (Some("1.33"), "v1alpha1"),
        ] {
            let sample = json!({"apiVersion": format!("x.io/{version}"), "kind": "Sample", "metadata": {"name": "a"}});
            let cluster = Cluster::with([sample]);
            if let Some(release) = release {
                cluster.set_config("emulated-version", release);
            }
            let kind = format!("x.io/{version}/Sample");
            let described = Sampler::describe_configured(&cluster.host());
            assert_eq!(
                permissions(&described),
                [format!("{kind}  delete"), "v1/Pod  delete".to_owned()]
            );
            let watched = described.watches[0].kind.as_ref().map(ToString::to_string);
            assert_eq!(watched.as_ref(), Some(&kind));
            assert_eq!(described.indexes[0].kind.to_string(), kind);
            cluster.reconcile::<Sampler>("a").unwrap();
            assert_eq!(cluster.written(), [format!("delete {kind} a")]);
        }
    }

    #[test]
    fn a_token_is_verified_by_the_key_that_signed_it_and_by_no_other() {
        let cluster = Cluster::new();
        cluster.add_key("a");
        cluster.add_key("b");
        let host = cluster.host();
        let token = host.sign_jwt("a", &json!({"sub": "me"})).unwrap();
        assert_eq!(
            host.verify_jwt::<Value>("a", &token).unwrap(),
            json!({"sub": "me"})
        );
        for (key, token, status) in [
            ("b", token.as_str(), 401),
            ("a", "made up", 401),
            ("c", token.as_str(), 404),
        ] {
            assert_eq!(
                host.verify_jwt::<Value>(key, token)
                    .unwrap_err()
                    .api()
                    .unwrap()
                    .status,
                status
            );
        }
        assert!(host.sign_jwt("c", &json!({})).unwrap_err().is_not_found());
    }
}
