//! Kubernetes' provider for AWS as a plugin, `examples/cloud-aws`, against moto, which serves the APIs of AWS from memory.
//! `cargo xtask guests go` builds the plugin, and `pip install 'moto[server]'` installs moto.

mod support;

use std::sync::Arc;

use flyball_controlplane::{Moto, Vpc, skip};
use flyball_plugin::{CloudCall, CloudError, Limits, Plugin};
use serde_json::{Value, json};
use support::{Fake, component_path, engine};
use tokio::runtime::Handle;

fn node(vpc: &Vpc, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number}"), "uid": vpc.instances[number]},
        "spec": {"providerID": vpc.provider_id(number)},
    })
}

/// The provider with what a host gives it.
struct Provider {
    plugin: Plugin,
    imports: Arc<Fake>,
}

impl Provider {
    async fn call(
        &self,
        method: &str,
        arguments: Value,
        nodes: Value,
    ) -> Result<Value, CloudError> {
        let call = CloudCall {
            method: method.into(),
            arguments: arguments.to_string().into(),
            nodes: nodes.to_string().into(),
        };
        let ended = self.plugin.cloud_call(self.imports.clone(), call).await;
        let document = ended.unwrap_or_else(|error| panic!("{method}: {error}"))?;
        Ok(serde_json::from_slice(&document).unwrap())
    }

    /// The result of a method that succeeds.
    async fn result(&self, method: &str, arguments: &Value, nodes: &[Value]) -> Value {
        let nodes = nodes.to_vec().into();
        let result = self.call(method, arguments.clone(), nodes).await;
        result.unwrap_or_else(|error| panic!("{method}: {error}"))
    }
}

/// Loads the provider; none if it was not built.
async fn load(moto: &Moto, vpc: &Vpc) -> Option<Provider> {
    let component = std::fs::read(component_path("cloud-aws")).ok()?;
    let engine = engine();
    let component = engine.load(component.into()).await.unwrap();
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let server = moto.url();
    let credentials = vec![
        ("cloud-config", vpc.config(moto)),
        ("AWS_ACCESS_KEY_ID", "a".into()),
        ("AWS_SECRET_ACCESS_KEY", "b".into()),
    ];
    Some(Provider {
        plugin: Plugin::new(&engine, component, limits).unwrap(),
        imports: Fake::new(|fake| {
            fake.server = Some((server, Handle::current()));
            fake.credentials = credentials;
        }),
    })
}

/// A Service whose load balancer is a network load balancer. Moto's classic ones lack the health check that the provider
/// reads.
fn service() -> Value {
    json!({
        "clusterName": "test",
        "service": {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "namespace": "team", "name": "web", "uid": "0f1c3e62-5f0b-4b87-9c35-8f5d2b6a1e47",
                "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"},
            },
            "spec": {
                "type": "LoadBalancer", "sessionAffinity": "None",
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080, "targetPort": 8080}],
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_provider_for_aws_serves_instances_and_load_balancers() {
    let test = "the_provider_for_aws_serves_instances_and_load_balancers";
    let Some(moto) = Moto::start().await.unwrap() else {
        skip(
            test,
            "moto_server is not installed: `pip install 'moto[server]'`",
        )
        .unwrap();
        return;
    };
    let vpc = Vpc::create(&moto, 2).await.unwrap();
    let Some(aws) = load(&moto, &vpc).await else {
        skip(
            test,
            "cloud-aws has not been built: `cargo xtask guests go` builds it",
        )
        .unwrap();
        return;
    };
    let capabilities = aws.plugin.cloud_capabilities(aws.imports.clone()).await;
    let capabilities: Value = serde_json::from_slice(&capabilities.unwrap().unwrap()).unwrap();
    assert_eq!(capabilities["providerName"], "aws");
    assert_eq!(capabilities["hasClusterID"], true);
    instances(&moto, &vpc, &aws).await;
    load_balancers(&vpc, &aws).await;
}

async fn instances(moto: &Moto, vpc: &Vpc, aws: &Provider) {
    let (none, node) = (json!({}), [node(vpc, 0)]);
    let found = aws.result("InstanceMetadata", &none, &node).await;
    let metadata = &found["metadata"];
    assert_eq!(metadata["providerID"], node[0]["spec"]["providerID"]);
    assert_eq!(metadata["instanceType"], "t3.small");
    assert_eq!(metadata["zone"], "us-east-1a");
    let addresses = metadata["nodeAddresses"].as_array().unwrap();
    let is_internal = |address: &&Value| address["type"] == "InternalIP";
    assert_eq!(addresses.iter().filter(is_internal).count(), 1, "{found}");

    let ask = async |method| aws.result(method, &none, &node).await["bool"] == true;
    assert!(ask("InstanceExists").await && !ask("InstanceShutdown").await);
    let id = &vpc.instances[0];
    let stop = format!("Action=StopInstances&InstanceId.1={id}");
    moto.ec2(&stop).await.unwrap();
    assert!(ask("InstanceExists").await && ask("InstanceShutdown").await);
    let terminate = format!("Action=TerminateInstances&InstanceId.1={id}");
    moto.ec2(&terminate).await.unwrap();
    assert!(!ask("InstanceExists").await);
}

async fn load_balancers(vpc: &Vpc, aws: &Provider) {
    let (service, node) = (service(), [node(vpc, 1)]);
    let exists = async || aws.result("GetLoadBalancer", &service, &[]).await["exists"] == true;
    assert!(!exists().await);
    let ensured = aws.result("EnsureLoadBalancer", &service, &node).await;
    let name = ensured["status"]["ingress"][0]["hostname"].as_str();
    assert!(
        name.is_some_and(|name| name.ends_with("amazonaws.com")),
        "{ensured}"
    );
    let again = aws.result("EnsureLoadBalancer", &service, &node).await;
    assert_eq!(again, ensured);
    assert!(exists().await);
    aws.result("UpdateLoadBalancer", &service, &node).await;
    aws.result("EnsureLoadBalancerDeleted", &service, &[]).await;
    assert!(!exists().await);
    let gone = aws
        .call("UpdateLoadBalancer", service.clone(), json!(node))
        .await;
    let message = gone.unwrap_err().message;
    assert!(message.contains("not found"), "{message}");
}
