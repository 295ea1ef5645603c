//! The documents of a call: the keys of the arguments and of the results of all methods, as `wit/cloud/types.wit` lists
//! them.

use flyball_sdk::Raw;
use serde::{Deserialize, Serialize};

use crate::types::{InstanceMetadata, NodeAddress, Route, Zone};

/// The arguments of a method. Those that the method does not take are absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Arguments {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<String>,
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub(crate) provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name_hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<Route>,
}

/// The result of a method. `None` is Go's nil.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exists: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bool: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) addresses: Option<Vec<NodeAddress>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<InstanceMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<Zone>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) routes: Option<Vec<Route>>,
}

/// Serializes a document. Empty bytes stand for `{}`.
pub(crate) fn to_bytes<T: Serialize + ?Sized>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document with string keys is valid JSON")
}

/// Parses a document.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(if bytes.is_empty() { b"{}" } else { bytes })
}
