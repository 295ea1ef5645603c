//! The states of instances, as the cloud reports them.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go: getProviderID,
//! shutdownInCloudProvider, ensureNodeExistsByProviderID, observeInstanceOp.

use flyball_cloud::{Call, Capabilities, Cloud, CloudError, ErrorKind};
use flyball_cloud_nodes::provider_id;
use flyball_sdk::Host;

use crate::CALLS;
use crate::views::Node;

/// The state of a node's instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The cloud has no such instance.
    Gone,
    ShutDown,
    Running,
}

/// Instances of some nodes.
struct Instances<'a> {
    host: &'a Host<'a>,
    capabilities: &'a Capabilities,
    nodes: &'a [Node],
    /// The provider IDs of the nodes. Only the older methods take them.
    ids: Vec<String>,
    /// What is known so far; `None` for nodes that the cloud is yet to be asked about.
    states: Vec<Option<Result<State, CloudError>>>,
}

/// Asks the cloud for the states of nodes' instances, about all of them at once.
pub(crate) fn states(
    host: &Host,
    capabilities: &Capabilities,
    nodes: &[Node],
) -> Vec<Result<State, CloudError>> {
    let mut instances = Instances {
        host,
        capabilities,
        nodes,
        ids: nodes.iter().map(|node| node.provider_id.clone()).collect(),
        states: vec![None; nodes.len()],
    };
    if !capabilities.instances_v2 {
        instances.look_up_ids();
    }
    instances.ask_whether_they_exist();
    instances.ask_whether_they_are_shut_down();
    let running = |state: Option<_>| state.unwrap_or(Ok(State::Running));
    instances.states.into_iter().map(running).collect()
}

impl Instances<'_> {
    /// Looks up the provider IDs of nodes that have none.
    fn look_up_ids(&mut self) {
        let cloud = Cloud::of(self.host);
        for (at, node) in self.nodes.iter().enumerate() {
            if !node.provider_id.is_empty() {
                continue;
            }
            let found = provider_id(&cloud, self.capabilities, &node.meta.name);
            self.count("instance_metadata", found.as_ref().err());
            match found {
                Ok(id) => self.ids[at] = id,
                Err(error) if error.has(&ErrorKind::InstanceNotFound) => {
                    self.states[at] = Some(Ok(State::Gone));
                }
                Err(error) => self.states[at] = Some(Err(error)),
            }
        }
    }

    fn ask_whether_they_exist(&mut self) {
        let answers = self.ask(|node, id| match id {
            Some(id) => Call::instance_exists_by_provider_id(id),
            None => Call::instance_exists(&node.document()),
        });
        for (at, exists) in answers {
            let missing = CloudError::instance_not_found();
            self.count(
                "instance_exists",
                match &exists {
                    Ok(true) => None,
                    Ok(false) => Some(&missing),
                    Err(error) => Some(error),
                },
            );
            match exists {
                Ok(true) => {}
                Ok(false) => self.states[at] = Some(Ok(State::Gone)),
                Err(error) => self.states[at] = Some(Err(error)),
            }
        }
    }

    fn ask_whether_they_are_shut_down(&mut self) {
        let answers = self.ask(|node, id| match id {
            Some(id) => Call::instance_shutdown_by_provider_id(id),
            None => Call::instance_shutdown(&node.document()),
        });
        let is_older = !self.capabilities.instances_v2;
        for (at, is_shut_down) in answers {
            self.count("instance_shutdown", is_shut_down.as_ref().err());
            self.states[at] = Some(match is_shut_down {
                Ok(true) => Ok(State::ShutDown),
                Ok(false) => Ok(State::Running),
                Err(error) if is_older && error.has(&ErrorKind::NotImplemented) => {
                    Ok(State::Running)
                }
                Err(error) => Err(error),
            });
        }
    }

    /// Makes a call for each node whose state is not known. The call is for a node, or for the provider ID that an older
    /// method takes. Returns the answers with the positions of the nodes.
    fn ask(
        &self,
        call: impl Fn(&Node, Option<&str>) -> Call<bool>,
    ) -> Vec<(usize, Result<bool, CloudError>)> {
        let is_unknown = |at: &usize| self.states[*at].is_none();
        let unknown: Vec<usize> = (0..self.nodes.len()).filter(is_unknown).collect();
        let call = |at: &usize| {
            let id = (!self.capabilities.instances_v2).then(|| self.ids[*at].as_str());
            call(&self.nodes[*at], id)
        };
        let answers = Cloud::of(self.host).run_all(unknown.iter().map(call).collect(), 0);
        let outcomes = answers.into_iter().map(|answer| answer.outcome);
        unknown.into_iter().zip(outcomes).collect()
    }

    /// Counts a call with its result.
    fn count(&self, operation: &str, error: Option<&CloudError>) {
        let result = match error.map(|error| &error.kind) {
            None => "success",
            Some(ErrorKind::NotImplemented) => "not_implemented",
            Some(ErrorKind::InstanceNotFound) => "instance_not_found",
            Some(_) => "error",
        };
        self.host.metrics().add(CALLS, &[operation, result], 1.0);
    }
}
