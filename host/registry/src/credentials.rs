//! The credentials for a registry, as `docker login` wrote them into Docker's configuration. Credential helpers are not
//! supported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

/// The maximum size of Docker's configuration in bytes.
const MAX_CONFIG: usize = 4 * 1024 * 1024;

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Deserialize)]
struct AuthEntry {
    /// `user:password` in base64.
    #[serde(default)]
    auth: String,
}

/// The credentials for a registry; anonymous if there are none.
pub(crate) fn for_registry(registry: &str, folder: Option<&Path>) -> RegistryAuth {
    let Some(folder) = folder.map(Path::to_owned).or_else(default_folder) else {
        return RegistryAuth::Anonymous;
    };
    let text = flyball_files::read(folder.join("config.json"), MAX_CONFIG).unwrap_or_default();
    let config: Config = serde_json::from_slice(&text).unwrap_or_default();
    let host =
        |name: &String| name.trim_start_matches("https://").split('/').next() == Some(registry);
    let entry = config.auths.get(registry).or_else(|| {
        config
            .auths
            .iter()
            .find(|(name, _)| host(name))
            .map(|(_, e)| e)
    });
    let decoded = entry
        .and_then(|entry| STANDARD.decode(&entry.auth).ok())
        .and_then(|auth| String::from_utf8(auth).ok());
    match decoded.as_deref().and_then(|auth| auth.split_once(':')) {
        Some((user, password)) if !user.is_empty() => {
            RegistryAuth::Basic(user.into(), password.into())
        }
        _ => RegistryAuth::Anonymous,
    }
}

fn default_folder() -> Option<PathBuf> {
    let set = |variable| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("DOCKER_CONFIG").or_else(|| Some(set("HOME")?.join(".docker")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_from_dockers_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let auth = STANDARD.encode("me:se:cret");
        let text = format!(
            r#"{{"auths": {{"r.example.com": {{"auth": "{auth}"}}, "https://old.example.com/v1/": {{"auth": "{auth}"}}, "odd": {{"auth": "!"}}}}}}"#
        );
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        let mine = RegistryAuth::Basic("me".into(), "se:cret".into());
        for (registry, expected) in [
            ("r.example.com", mine.clone()),
            ("old.example.com", mine),
            ("other.example.com", RegistryAuth::Anonymous),
            ("odd", RegistryAuth::Anonymous),
        ] {
            assert_eq!(
                for_registry(registry, Some(folder.path())),
                expected,
                "{registry}"
            );
        }
        assert_eq!(
            for_registry("r.example.com", Some(Path::new("/no/such"))),
            RegistryAuth::Anonymous
        );
    }
}
