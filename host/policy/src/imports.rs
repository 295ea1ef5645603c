//! The decisions about a guest's actions other than reads and writes of objects: list the kinds, record events, use
//! keys. Like in `access.rs`, each decision is a type that only its check makes, and code that acts for a guest takes
//! the type.

use flyball_types::{ApiError, Kind, printable};

use crate::{CertificateRule, Certified, PluginPolicy};

/// The decision that a plugin may list the kinds that the API server serves. Only [`PluginPolicy::may_discover`] makes
/// one.
#[derive(Debug)]
pub struct MayDiscover(());

/// The decision that a plugin may record an event about an object. Only [`PluginPolicy::may_record`] makes one.
#[derive(Debug)]
pub struct MayRecord(());

/// The decision that `signer` may use a key for a plugin. Only [`PluginPolicy::may_use_key`] makes one.
#[derive(Debug)]
pub struct MayUseKey {
    key: String,
}

/// The decision that `signer` may use the authority of a signer for a plugin, with the subjects that it may be used
/// for. Only [`PluginPolicy::may_use_signer`] makes one.
#[derive(Debug)]
pub struct MayUseSigner {
    signer: String,
    rules: Vec<CertificateRule>,
}

/// The decision that a plugin may call a cloud. Only [`PluginPolicy::may_call_cloud`] makes one.
#[derive(Debug)]
pub struct MayCallCloud {
    provider: String,
}

impl MayCallCloud {
    /// The name of the provider.
    pub fn provider(&self) -> &str {
        &self.provider
    }
}

impl MayUseKey {
    /// The key's name.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl MayUseSigner {
    /// The signer's name.
    pub fn signer(&self) -> &str {
        &self.signer
    }

    /// Checks a certificate that the signer would sign.
    ///
    /// # Errors
    /// `Denied` if no rule allows all of it.
    pub fn check_certificate(&self, certified: Certified<'_>) -> Result<(), ApiError> {
        let mut denied = None;
        for rule in &self.rules {
            match rule.refused(certified) {
                Some(what) => denied = Some(what),
                None => return Ok(()),
            }
        }
        let (what, value) = denied.unwrap_or_default();
        Err(ApiError::denied(format!(
            "the policy does not let this plugin sign certificates {what} `{}` as the signer `{}`",
            printable(value),
            printable(&self.signer)
        )))
    }
}

impl PluginPolicy {
    /// Decides whether the plugin may list the kinds that the API server serves.
    ///
    /// # Errors
    /// `Denied` if it may not.
    pub fn may_discover(&self) -> Result<MayDiscover, ApiError> {
        self.check_import("discovery").map(MayDiscover)
    }

    /// Decides whether the plugin may record events about objects of this kind in this namespace. It may if it may read
    /// or write such objects, or create events there.
    ///
    /// # Errors
    /// `Denied` if it may not.
    pub fn may_record(&self, kind: &Kind, namespace: &str) -> Result<MayRecord, ApiError> {
        let (name, event) = (kind.to_string(), Kind::new("", "v1", "Event"));
        let mut rules = self.allow.iter();
        if rules.any(|rule| rule.is_of(&name) && rule.is_for(namespace))
            || self.check("create", &event, "", namespace).is_ok()
        {
            return Ok(MayRecord(()));
        }
        Err(ApiError::denied(format!(
            "the policy does not let this plugin record events about {name} in the namespace `{}`",
            printable(namespace)
        )))
    }

    /// Decides whether the plugin may call a cloud, whether its provider runs or not.
    ///
    /// # Errors
    /// `Denied` if it may not, or if the policy names no provider.
    pub fn may_call_cloud(&self) -> Result<MayCallCloud, ApiError> {
        self.check_import("cloud")?;
        let provider = self.cloud_provider.clone().ok_or_else(|| {
            ApiError::denied(
                "no cloud provider is named for this plugin: set --cloud-provider, or `cloud-provider` in its policy",
            )
        })?;
        Ok(MayCallCloud { provider })
    }

    /// Decides whether `signer` may use a key for the plugin, whether the host holds such a key or not.
    ///
    /// # Errors
    /// `Denied` if it may not.
    pub fn may_use_key(&self, key: &str) -> Result<MayUseKey, ApiError> {
        self.check_import("signer")?;
        if self.signer_keys.contains(key) {
            return Ok(MayUseKey { key: key.into() });
        }
        Err(ApiError::denied(format!(
            "the policy does not let this plugin use the key `{}`",
            printable(key)
        )))
    }

    /// Decides whether `signer` may use the authority of a signer for the plugin, whether the host holds one or not.
    ///
    /// # Errors
    /// `Denied` if it may not.
    pub fn may_use_signer(&self, signer: &str) -> Result<MayUseSigner, ApiError> {
        self.check_import("signer")?;
        let rules = self.certificates.iter();
        let rules = rules.filter(|rule| rule.signers.contains(signer));
        let rules: Vec<CertificateRule> = rules.cloned().collect();
        if rules.is_empty() {
            return Err(ApiError::denied(format!(
                "the policy does not let this plugin use the signer `{}`",
                printable(signer)
            )));
        }
        let signer = signer.into();
        Ok(MayUseSigner { signer, rules })
    }
}
