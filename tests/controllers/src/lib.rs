//! Runs every built-in controller natively, on the cluster in memory of the SDK.
//!
//! A *world* (`world.rs`) is the objects of a scenario of the differential suite: what stock's controllers left behind,
//! completed by what the scenario created. A *play* (`play.rs`) runs one controller on it, as the host would: changes
//! (`snapshot.rs`) become keys (`routing.rs`), and keys are reconciled until nothing changes any more.
//!
//! The tests change a world and compare what the controller does.

pub mod odd;
pub mod play;
pub mod reactions;
pub mod routing;
pub mod snapshot;
pub mod states;
pub mod texts;
pub mod world;

use flyball_sdk::testing::{Cluster, Exported};
use serde_json::json;

/// A built-in controller.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The canonical name.
    pub name: &'static str,
    /// The folder in `guests/controllers`.
    pub folder: &'static str,
    pub exported: Exported,
}

/// All built-in controllers.
pub static SUBJECTS: &[Subject] = include!(concat!(env!("OUT_DIR"), "/subjects.rs"));

/// Values of the configuration that a controller needs: the folder, the key and the value.
const CONFIG: [(&str, &str, &str); 5] = [
    (
        "kube-apiserver-serving-clustertrustbundle-publisher",
        "root-ca",
        "certificates",
    ),
    ("node-ipam", "cluster-cidrs", "10.128.0.0/9"),
    ("node-ipam", "node-cidr-mask-sizes", "16"),
    ("root-ca-certificate-publisher", "root-ca", "certificates"),
    ("serviceaccount-token", "root-ca", "certificates"),
];

/// The signers of kube-controller-manager.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/legacy-unknown",
];
/// The number of SubjectAccessReviews that a cluster answers.
const REVIEWS: usize = 100;

impl Subject {
    /// A cluster without objects, with what the host provides for this controller.
    pub fn cluster(&self) -> Cluster {
        let cluster = Cluster::new();
        for (folder, key, value) in CONFIG {
            if folder == self.folder {
                cluster.set_config(key, value);
            }
        }
        cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "kube-system", "name": "kube-apiserver-legacy-service-account-token-tracking"},
            "data": {"since": "2025-01-01"}}));
        cluster.add_key("service-account");
        for signer in SIGNERS {
            cluster.add_authority(signer);
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                            "status": {"allowed": true}});
        for _ in 0..REVIEWS {
            cluster.answer(
                "authorization.k8s.io/v1/SubjectAccessReview",
                review.clone(),
            );
        }
        cluster
    }
}
