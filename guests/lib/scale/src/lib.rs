//! The subresource `scale` of controllers of any kind, which is read live by its path.
//!
//! A Scale is updated by [`Write::update`](flyball_sdk::Write::update) of the kind with the metadata of the Scale, on
//! the subresource `scale`.
//!
//! Upstream: staging/src/k8s.io/client-go/scale/client.go: Get, convertToScale, apiPathFor, pathAndVersionFor.
//! Upstream: staging/src/k8s.io/client-go/scale/scheme/autoscalingv1/conversion.go:
//! Convert_v1_ScaleStatus_To_scheme_ScaleStatus.

use flyball_sdk::live::push_segment;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::{Kind, Meta};
use serde::Deserialize;

/// A Scale of `autoscaling/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Scale {
    /// The identity of the object that is scaled.
    pub metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ScaleSpec,
    #[serde(deserialize_with = "null_is_default")]
    pub status: ScaleStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScaleSpec {
    /// The desired number of replicas.
    pub replicas: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScaleStatus {
    /// The number of replicas that exist.
    pub replicas: i32,
    /// The label selector of the pods, as text; empty if the object has none.
    pub selector: String,
}

impl Scale {
    /// Checks the selector, which a custom resource may have in any form.
    ///
    /// # Errors
    /// The selector is malformed. The error is the one with which Kubernetes' client refuses such a Scale.
    pub fn check(&self) -> Result<(), String> {
        flyball_go_format::selector_error(&self.status.selector).map_or(Ok(()), |error| {
            Err(format!(
                "received an object from a /scale endpoint which was not convertible to autoscaling Scale: failed to \
                 parse target selector: {error}"
            ))
        })
    }
}

/// Returns the path of the Scale of an object: `/apis/apps/v1/namespaces/a/deployments/web/scale`.
pub fn path(kind: &Kind, plural: &str, namespace: &str, name: &str) -> String {
    let root = if kind.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let mut path = format!("{root}/{}/namespaces", kind.api_version());
    for segment in [namespace, plural, name, "scale"] {
        push_segment(&mut path, segment);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_the_group_with_escapes() {
        let path = |kind: &str, name: &str| path(&kind.parse().unwrap(), "webs", "a", name);
        assert_eq!(path("v1/Web", "b"), "/api/v1/namespaces/a/webs/b/scale");
        assert_eq!(
            path("x.io/v1/Web", "b:c d/e"),
            "/apis/x.io/v1/namespaces/a/webs/b:c%20d%2Fe/scale"
        );
    }

    #[test]
    fn absent_numbers_are_zero() {
        let scale: Scale =
            serde_json::from_str(r#"{"metadata": {"uid": "1"}, "status": null}"#).unwrap();
        assert_eq!(
            (scale.spec.replicas, scale.status.selector.as_str()),
            (0, "")
        );
    }

    #[test]
    fn a_malformed_selector_is_an_error() {
        let check = |selector: &str| {
            let mut scale = Scale::default();
            scale.status.selector = selector.into();
            scale.check()
        };
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("app=web"), Ok(()));
        assert_eq!(
            check("app!=web").unwrap_err(),
            "received an object from a /scale endpoint which was not convertible to autoscaling Scale: failed to parse \
             target selector: \"!=\" is not a valid label selector operator"
        );
    }
}
