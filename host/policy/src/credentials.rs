//! Where a cloud provider's configuration and credentials come from. They are the operator's, and the provider gets no
//! others by asking.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The sources of a provider's credentials. Names in the Secret take precedence over names in the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct CredentialPolicy {
    /// File with the cloud's configuration, the credential `cloud-config`. A relative path starts at the policy's folder.
    pub config_file: Option<PathBuf>,
    /// Secret whose keys are credentials, in the form `namespace/name`. It is read as the plugin's service account.
    pub secret: Option<String>,
    /// Folder whose files are credentials, by their names. A relative path starts at the policy's folder.
    pub folder: Option<PathBuf>,
}

impl CredentialPolicy {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The namespace and the name of the Secret.
    pub fn secret(&self) -> Option<(&str, &str)> {
        self.secret.as_deref()?.split_once('/')
    }

    /// Whether these are all sources of `other`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let has = |own: bool, wanted: bool| own || !wanted;
        has(
            self.config_file == other.config_file,
            other.config_file.is_some(),
        ) && has(self.secret == other.secret, other.secret.is_some())
            && has(self.folder == other.folder, other.folder.is_some())
    }

    /// Resolves relative paths.
    pub(crate) fn beside(self, policy: &Path) -> Self {
        let beside = |path: PathBuf| {
            policy
                .parent()
                .map_or(path.clone(), |folder| folder.join(&path))
        };
        Self {
            config_file: self.config_file.map(beside),
            folder: self.folder.map(beside),
            ..self
        }
    }

    /// Fails with a sentence about what is not valid.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let Some(secret) = &self.secret else {
            return Ok(());
        };
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            !name.is_empty()
                && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        };
        match self.secret() {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(()),
            _ => Err(format!(
                "`{secret}` is not a Secret: write `namespace/name`"
            )),
        }
    }
}
