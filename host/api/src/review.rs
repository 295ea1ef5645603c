//! Asks the API server whether a plugin's own account may read what the cache would show it. The host fills the cache,
//! and has wider rights.

use bytes::Bytes;
use flyball_cache::ApiResource;
use flyball_types::{ApiError, Effect};
use serde_json::{Value, json};

use crate::client::{ApiClient, ApiRequest};
use crate::rights::{HostRight, HostScope, HostVerb};

const REVIEW: HostRight = HostRight {
    verb: HostVerb::Create,
    group: "authorization.k8s.io",
    resource: "subjectaccessreviews",
    scope: HostScope::Cluster,
};
pub(super) const RIGHTS: [HostRight; 1] = [REVIEW];

/// A read to review.
pub struct Reading<'a> {
    /// Namespace and name.
    pub account: (&'a str, &'a str),
    /// The resource's group, version and plural; `*` for all.
    pub resource: (&'a str, &'a str, &'a str),
    /// The namespace; empty for all.
    pub namespace: &'a str,
}

impl<'a> Reading<'a> {
    pub fn of(account: (&'a str, &'a str), resource: &'a ApiResource, namespace: &'a str) -> Self {
        let kind = &resource.kind;
        Self {
            account,
            resource: (&kind.group, &kind.version, &resource.plural),
            namespace,
        }
    }

    pub fn of_all(account: (&'a str, &'a str), namespace: &'a str) -> Self {
        Self {
            account,
            resource: ("*", "*", "*"),
            namespace,
        }
    }

    /// Returns the missing permission of the account as a sentence; none if it may read. Fails if the server does not
    /// answer, or does not let the host ask.
    pub async fn denied(&self, host: &ApiClient) -> Result<Option<String>, ApiError> {
        for verb in ["list", "watch"] {
            if !self.may(host, verb).await? {
                let ((namespace, name), (group, _, plural)) = (self.account, self.resource);
                let dot = if group.is_empty() { "" } else { "." };
                let place = if self.namespace.is_empty() {
                    String::new()
                } else {
                    format!(" in the namespace {}", self.namespace)
                };
                return Ok(Some(format!(
                    "its service account {namespace}/{name} may not {verb} {plural}{dot}{group}{place}: `flyball rbac` prints \
                     the roles that it needs"
                )));
            }
        }
        Ok(None)
    }

    async fn may(&self, host: &ApiClient, verb: &str) -> Result<bool, ApiError> {
        let answer = host
            .send(ApiRequest::own(
                REVIEW,
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                self.question(verb),
            ))
            .await?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| {
            let message = format!("the server's answer to an access review can't be read: {error}");
            ApiError::internal(Effect::None, message)
        })?;
        Ok(answer["status"]["allowed"].as_bool().unwrap_or(false))
    }

    fn question(&self, verb: &str) -> Bytes {
        let ((account_namespace, name), (group, version, plural)) = (self.account, self.resource);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{account_namespace}:{name}"),
                "groups": [
                    "system:serviceaccounts",
                    format!("system:serviceaccounts:{account_namespace}"),
                    "system:authenticated",
                ],
                "resourceAttributes": {
                    "verb": verb, "group": group, "version": version, "resource": plural, "namespace": self.namespace,
                },
            },
        });
        Bytes::from(review.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_asked_about_the_account_as_it_sees_it() {
        let resource = ApiResource::new("apps/v1/Deployment".parse().unwrap(), "deployments", true);
        let asked = Reading::of(("flyball-system", "hello"), &resource, "demo").question("watch");
        let asked: Value = serde_json::from_slice(&asked).unwrap();
        assert_eq!(
            asked["spec"]["user"],
            "system:serviceaccount:flyball-system:hello"
        );
        assert_eq!(
            asked["spec"]["groups"][1],
            "system:serviceaccounts:flyball-system"
        );
        let attributes = &asked["spec"]["resourceAttributes"];
        assert_eq!(
            *attributes,
            json!({"verb": "watch", "group": "apps", "version": "v1", "resource": "deployments", "namespace": "demo"})
        );
    }
}
