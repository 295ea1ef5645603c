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

mod call;
mod document;
mod error;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod types;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod wasm;

pub use call::{Answer, Call, Cloud, LoadBalancer, Nodes};
pub use error::{CloudError, ErrorKind};
pub use types::{Capabilities, InstanceMetadata, NodeAddress, Route, Zone};
