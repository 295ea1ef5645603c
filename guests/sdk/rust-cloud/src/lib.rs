//! The SDK for clouds, as `wit/cloud` describes them: [`Cloud`] for controllers that call one, and [`Provider`] for
//! plugins that are one.
//!
//! A controller asks for the import `cloud` and makes calls:
//!
//! ```
//! use flyball_cloud::testing::FakeCloud;
//! use flyball_cloud::{Call, Cloud, CloudError, Nodes};
//! use flyball_sdk::prelude::*;
//! use flyball_sdk::testing::Cluster;
//!
//! fn ensure(host: &Host, service: &Value, nodes: &Nodes) -> Result<(), CloudError> {
//!     let cloud = Cloud::of(host);
//!     if !cloud.capabilities()?.load_balancer {
//!         return Ok(());
//!     }
//!     let status = cloud.run(Call::ensure_load_balancer("kubernetes", service, nodes))?;
//!     assert!(status.is_some());
//!     Ok(())
//! }
//!
//! // A test: the fake cloud remembers its load balancers, and what it was asked.
//! let cluster = Cluster::new();
//! let fake = FakeCloud::of(&cluster);
//! let service = json!({"metadata": {"namespace": "default", "name": "web", "uid": "u1"}});
//! let nodes = Nodes::of(&[json!({"metadata": {"name": "a", "uid": "n1"}})]);
//! ensure(&cluster.host(), &service, &nodes).unwrap();
//! assert_eq!(fake.called(), ["EnsureLoadBalancer default/web a"]);
//! ```
//!
//! A provider implements the methods that its cloud supports:
//!
//! ```
//! use flyball_cloud::provider::{Context, describe_provider};
//! use flyball_cloud::testing::ProviderTest;
//! use flyball_cloud::{Capabilities, CloudError, HttpRequest, HttpResponse, Provider, export_provider};
//! use flyball_sdk::prelude::*;
//!
//! struct Shelf;
//!
//! export_provider!(Shelf);
//!
//! impl Provider for Shelf {
//!     fn describe() -> Description {
//!         describe_provider("shelf", "1.0.0")
//!     }
//!
//!     fn capabilities(_: &Context) -> Result<Capabilities, CloudError> {
//!         Ok(Capabilities {
//!             provider_name: "shelf".into(),
//!             has_cluster_id: true,
//!             instances_v2: true,
//!             ..Capabilities::default()
//!         })
//!     }
//!
//!     fn instance_exists(cloud: &Context, node: &Raw) -> Result<bool, CloudError> {
//!         let node = node.value();
//!         let name = node["metadata"]["name"].as_str().unwrap_or_default();
//!         let url = format!("https://shelf.example.com/v1/machines/{name}");
//!         let token = cloud.credential("token")?.unwrap_or_default();
//!         let request = HttpRequest::new("GET", url).header("authorization", format!("Bearer {token}"));
//!         match cloud.send(&request)?.status {
//!             200 => Ok(true),
//!             404 => Ok(false),
//!             other => Err(CloudError::other(format!("the shelf responded with status {other}"))),
//!         }
//!     }
//! }
//!
//! // A test: the cloud's server is a function.
//! let test = ProviderTest::<Shelf>::new(|request| {
//!     assert_eq!(request.headers, [("authorization".to_owned(), "Bearer secret".to_owned())]);
//!     let status = if request.url.ends_with("/machines/a") { 200 } else { 404 };
//!     Ok(HttpResponse::json(status, &json!({})))
//! });
//! test.set_credential("token", "secret");
//! let exists = |name| test.run(flyball_cloud::Call::instance_exists(&json!({"metadata": {"name": name}})));
//! assert_eq!(exists("a"), Ok(true));
//! assert_eq!(exists("b"), Ok(false));
//! ```

mod call;
mod document;
mod error;
mod http;
pub mod provider;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod types;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;

pub use call::{Answer, Call, Cloud, LoadBalancer, Nodes};
pub use error::{CloudError, ErrorKind};
#[doc(hidden)]
pub use flyball_sdk as sdk;
pub use http::{HttpRequest, HttpResponse};
pub use provider::Provider;
pub use types::{Capabilities, InstanceMetadata, NodeAddress, Route, Zone};
