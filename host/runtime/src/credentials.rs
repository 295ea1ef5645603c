//! The credentials of a cloud's provider: read from the sources that the policy names, and kept out of everything that
//! the provider says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::client::ApiClient;
use flyball_api::secret::read_secret;
use flyball_plugin::{CallError, CallFailure, Outcome};
use flyball_policy::CredentialPolicy;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

/// The name of the credential that holds the cloud's configuration.
const CLOUD_CONFIG: &str = "cloud-config";
/// How old values may be when a call begins. The sources are then read again.
const MAX_AGE: Duration = Duration::from_secs(30);
/// The largest file, and the most files of a folder.
const MAX_FILE: usize = 1 << 20;
const MAX_FILES: usize = 100;
/// Shorter values are not replaced in texts: words of the language would be.
const MIN_SECRET: usize = 6;
const REPLACEMENT: &str = "[credential]";
/// The names of fields whose values are secrets, in a configuration file.
const SECRET_NAMES: [&str; 6] = ["secret", "password", "passwd", "token", "key", "credential"];

/// The credentials of one version of a provider.
pub struct Credentials {
    policy: CredentialPolicy,
    /// Reads the Secret, as the provider's service account.
    client: ApiClient,
    current: Mutex<Current>,
}

/// The values as they were last read.
#[derive(Clone)]
struct Current {
    values: Arc<Values>,
    read_at: Instant,
}

#[derive(Default)]
struct Values {
    by_name: BTreeMap<String, Bytes>,
    /// The texts that are replaced, the longest first.
    secrets: Vec<String>,
}

/// A source of credentials can't be read. A retry may help.
#[derive(Debug, thiserror::Error)]
#[error("can't read the credentials in {place}: {problem}")]
pub struct CredentialError {
    place: String,
    problem: String,
}

impl Credentials {
    /// Reads all sources. Returns `None` if the policy names none.
    pub async fn load(
        policy: &CredentialPolicy,
        client: ApiClient,
    ) -> Result<Option<Arc<Self>>, CredentialError> {
        if policy.is_empty() {
            return Ok(None);
        }
        let policy = policy.clone();
        let current = Mutex::new(Current {
            values: Arc::new(read(&policy, &client).await?),
            read_at: Instant::now(),
        });
        Ok(Some(Arc::new(Self {
            policy,
            client,
            current,
        })))
    }

    /// Reads the sources again if the values are old. If a source can't be read now, the old values stay.
    pub async fn refresh(&self) {
        let old = self.current.lock().read_at;
        if old.elapsed() < MAX_AGE {
            return;
        }
        // Calls that begin meanwhile use the old values.
        self.current.lock().read_at = Instant::now();
        match read(&self.policy, &self.client).await {
            Ok(values) => self.current.lock().values = Arc::new(values),
            Err(error) => tracing::warn!(%error, "the provider keeps its old credentials"),
        }
    }

    /// Returns the value of this name.
    pub fn get(&self, name: &str) -> Option<Bytes> {
        self.values().by_name.get(name).cloned()
    }

    /// Replaces the secrets in a text.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        redact(&self.values().secrets, text)
    }

    /// Replaces the secrets in the texts of a reconcile's result.
    pub fn redact_outcome(&self, result: &mut Result<Outcome, CallError>) {
        let text = match result {
            Ok(Outcome::Failed(message) | Outcome::Terminal(message)) => message,
            Err(error) => match &mut error.failure {
                CallFailure::Trap {
                    last_error: Some(text),
                    ..
                }
                | CallFailure::MemoryLimit {
                    last_error: Some(text),
                    ..
                } => text,
                _ => return,
            },
            Ok(_) => return,
        };
        *text = self.redact(text).into_owned();
    }

    fn values(&self) -> Arc<Values> {
        self.current.lock().values.clone()
    }
}

fn redact<'a>(secrets: &[String], text: &'a str) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for secret in secrets {
        if text.contains(secret) {
            text = Cow::Owned(text.replace(secret, REPLACEMENT));
        }
    }
    text
}

async fn read(policy: &CredentialPolicy, client: &ApiClient) -> Result<Values, CredentialError> {
    let files = policy.clone();
    let read = tokio::task::spawn_blocking(move || read_files(&files)).await;
    let mut by_name = read.unwrap_or_else(|error| {
        Err(CredentialError {
            place: "files".into(),
            problem: error.to_string(),
        })
    })?;
    if let Some((namespace, name)) = policy.secret() {
        let secret = read_secret(client, namespace, name).await;
        by_name.extend(secret.map_err(|error| CredentialError {
            place: format!("the Secret {namespace}/{name}"),
            problem: format!(
                "{error}; `flyball rbac` prints the role that the provider's service account needs"
            ),
        })?);
    }
    let secrets = secrets(&by_name);
    Ok(Values { by_name, secrets })
}

fn read_files(policy: &CredentialPolicy) -> Result<BTreeMap<String, Bytes>, CredentialError> {
    let failed = |path: &Path| {
        let place = path.display().to_string();
        move |error: std::io::Error| CredentialError {
            place,
            problem: error.to_string(),
        }
    };
    let mut by_name = BTreeMap::new();
    if let Some(folder) = &policy.folder {
        let entries = std::fs::read_dir(folder).map_err(failed(folder))?;
        for entry in entries.take(MAX_FILES) {
            let name = entry.map_err(failed(folder))?.file_name();
            // A mounted Secret has its versions in folders with such names.
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = folder.join(name);
            if path.is_file() {
                let value = flyball_files::read(&path, MAX_FILE).map_err(failed(&path))?;
                by_name.insert(name.to_owned(), value.into());
            }
        }
    }
    if let Some(file) = &policy.config_file {
        let value = flyball_files::read(file, MAX_FILE).map_err(failed(file))?;
        by_name.insert(CLOUD_CONFIG.into(), value.into());
    }
    Ok(by_name)
}

/// Returns the texts that no log may show: each credential and each of its lines; of the configuration, which holds
/// addresses and names as well, only the values of fields with the name of a secret.
fn secrets(by_name: &BTreeMap<String, Bytes>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in by_name {
        let text = String::from_utf8_lossy(value);
        if name == CLOUD_CONFIG {
            match serde_json::from_str(&text) {
                Ok(document) => secrets_of_document(&document, &mut found),
                Err(_) => found.extend(secrets_of_lines(&text)),
            }
        } else {
            found.push(text.trim().to_owned());
            found.extend(text.lines().map(|line| line.trim().to_owned()));
        }
    }
    found.retain(|secret| secret.len() >= MIN_SECRET);
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found.dedup();
    found
}

fn is_name_of_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

fn secrets_of_document(document: &Value, found: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if is_name_of_secret(name) => found.push(text.clone()),
                    other => secrets_of_document(other, found),
                }
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| secrets_of_document(item, found)),
        _ => {}
    }
}

/// The secrets of a file with lines such as `token = "abc"` or `token: abc`.
fn secrets_of_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(['=', ':'])?;
        let value = value.trim().trim_matches(['"', '\'']);
        is_name_of_secret(name).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(values: &[(&str, &str)], text: &str) -> String {
        let by_name = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Bytes::from((*value).to_owned())))
            .collect();
        redact(&secrets(&by_name), text).into_owned()
    }

    #[test]
    fn a_credential_and_its_lines_are_replaced_in_texts() {
        let values = [
            ("token", "abcdefgh\n"),
            ("key", "BEGIN KEY\nline-of-key\nEND"),
        ];
        assert_eq!(
            redacted(&values, "401 for abcdefgh!"),
            "401 for [credential]!"
        );
        assert_eq!(redacted(&values, "see line-of-key"), "see [credential]");
        assert_eq!(redacted(&values, "END"), "END");
    }

    #[test]
    fn of_the_configuration_only_secrets_are_replaced() {
        let json = r#"{"url": "http://cloud", "auth": [{"apiToken": "s3cr3t-1"}]}"#;
        let text = "http://cloud refused s3cr3t-1";
        let expected = "http://cloud refused [credential]";
        assert_eq!(redacted(&[(CLOUD_CONFIG, json)], text), expected);
        let ini = "[Global]\nurl = http://cloud\nsecret-key = \"s3cr3t-1\"";
        assert_eq!(redacted(&[(CLOUD_CONFIG, ini)], text), expected);
    }

    #[test]
    fn the_files_of_a_folder_and_the_configuration_are_read_by_name() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "t").unwrap();
        std::fs::create_dir(home.path().join("..data")).unwrap();
        let config_file = home.path().join("cloud.conf");
        std::fs::write(&config_file, "{}").unwrap();
        let policy = CredentialPolicy {
            config_file: Some(config_file),
            folder: Some(home.path().to_owned()),
            ..CredentialPolicy::default()
        };
        let names: Vec<_> = read_files(&policy).unwrap().into_keys().collect();
        assert_eq!(names, ["cloud-config", "cloud.conf", "token"]);
        let missing = CredentialPolicy {
            config_file: Some(home.path().join("missing")),
            ..CredentialPolicy::default()
        };
        let error = read_files(&missing).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
    }
}
