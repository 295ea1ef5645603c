//! The connection to the API server, from a kubeconfig or the pod's service account. Each error is one sentence that
//! says what to do.

use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::config::ClusterConfig;

/// The reason why the connection can't be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error("the kubeconfig {} does not exist: name another one", .0.display())]
    Missing(PathBuf),
    #[error("can't read the kubeconfig {}: make it readable for this user, or name another one", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("the kubeconfig {} is not valid: fix it, or name another one", .0.display())]
    Invalid(PathBuf, #[source] KubeconfigError),
    #[error("the kubeconfig {} has no context {context:?}: its contexts are {contexts}", path.display())]
    NoContext {
        path: PathBuf,
        context: String,
        contexts: String,
    },
    #[error("the kubeconfig {} has no current context: set it, or name one with --context", .0.display())]
    NoCurrentContext(PathBuf),
    #[error("the kubeconfig {} can't be used: fix it, or name another one", .0.display())]
    Unusable(PathBuf, #[source] KubeconfigError),
    #[error("--kubeconfig is missing, and this process does not run in a pod")]
    NotInCluster(#[source] kube::config::InClusterError),
    #[error("--master={0} is not a URL: write https://host:port")]
    Master(String),
}

/// Returns the configuration of the connection. Does not connect.
pub(crate) async fn config(source: &ClusterConfig) -> Result<Config, ClusterError> {
    let mut config = match &source.kubeconfig {
        Some(path) => from_file(path, source.context.as_deref()).await?,
        None => Config::incluster().map_err(ClusterError::NotInCluster)?,
    };
    if let Some(master) = &source.master {
        let url: Option<http::Uri> = master.parse().ok();
        let url = url.filter(|url| url.scheme().is_some() && url.authority().is_some());
        config.cluster_url = url.ok_or_else(|| ClusterError::Master(master.clone()))?;
    }
    Ok(config)
}

/// Warns once, not for each connection, if the certificate of the API server is not verified.
pub(crate) fn warn_if_unverified(config: &Config, flag: &str) {
    if config.accept_invalid_certs {
        tracing::warn!(
            "the kubeconfig of --{flag} skips the verification of the API server's certificate: anybody between it and this \
             process can pose as the API server"
        );
    }
}

async fn from_file(path: &Path, context: Option<&str>) -> Result<Config, ClusterError> {
    let owned = || path.to_owned();
    std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ClusterError::Missing(owned()),
        _ => ClusterError::Unreadable(owned(), error),
    })?;
    let kubeconfig =
        Kubeconfig::read_from(path).map_err(|error| ClusterError::Invalid(owned(), error))?;
    let wanted = context
        .or(kubeconfig.current_context.as_deref())
        .filter(|context| !context.is_empty());
    let Some(wanted) = wanted else {
        return Err(ClusterError::NoCurrentContext(owned()));
    };
    if !kubeconfig
        .contexts
        .iter()
        .any(|context| context.name == wanted)
    {
        let names: Vec<&str> = kubeconfig
            .contexts
            .iter()
            .map(|context| context.name.as_str())
            .collect();
        let contexts = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Err(ClusterError::NoContext {
            path: owned(),
            context: wanted.to_owned(),
            contexts,
        });
    }
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|error| ClusterError::Unusable(owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn error(text: &str, context: Option<&str>) -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("it is written");
        let error = from_file(file.path(), context)
            .await
            .map(drop)
            .expect_err("it can't be used");
        error
            .to_string()
            .replace(&file.path().display().to_string(), "FILE")
    }

    const TWO: &str = "apiVersion: v1\nkind: Config\ncontexts:\n- name: a\n  context: {cluster: a, user: a}\n- name: b\n  context: {cluster: b, user: b}\n";

    #[tokio::test]
    async fn each_problem_of_a_kubeconfig_has_its_own_sentence() {
        let missing = from_file(Path::new("/no/such/file"), None)
            .await
            .map(drop)
            .expect_err("there is none");
        assert_eq!(
            missing.to_string(),
            "the kubeconfig /no/such/file does not exist: name another one"
        );
        let folder = from_file(Path::new("/"), None)
            .await
            .map(drop)
            .expect_err("it is a folder");
        assert!(
            folder
                .to_string()
                .starts_with("can't read the kubeconfig /:"),
            "{folder}"
        );
        let invalid = error("a: [b", None).await;
        assert_eq!(
            invalid,
            "the kubeconfig FILE is not valid: fix it, or name another one"
        );
        assert_eq!(
            error(TWO, Some("c")).await,
            "the kubeconfig FILE has no context \"c\": its contexts are a, b"
        );
        let current = error(TWO, None).await;
        assert_eq!(
            current,
            "the kubeconfig FILE has no current context: set it, or name one with --context"
        );
        assert!(
            error(TWO, Some("a"))
                .await
                .starts_with("the kubeconfig FILE can't be used")
        );
        assert!(error("", None).await.starts_with("the kubeconfig FILE"));
    }
}
