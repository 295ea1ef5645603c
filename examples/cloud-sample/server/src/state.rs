//! The state of the cloud, and its operations.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Everything that the cloud knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// By ID.
    pub instances: BTreeMap<String, Instance>,
    /// Routes by the names of networks, and by ID.
    pub networks: BTreeMap<String, BTreeMap<String, Route>>,
    /// By name.
    pub load_balancers: BTreeMap<String, LoadBalancer>,
    pub settings: Settings,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Instance {
    pub id: String,
    /// The name of its node.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub zone: String,
    pub region: String,
    /// `running` or `stopped`.
    pub state: String,
    pub addresses: Vec<Address>,
    pub labels: BTreeMap<String, String>,
}

/// An address of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// For example `InternalIP`.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

/// A route of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    pub id: String,
    /// A range such as `10.244.1.0/24`.
    pub destination: String,
    /// The ID of an instance.
    pub instance: String,
    pub addresses: Vec<Address>,
}

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancer {
    pub name: String,
    /// The Service, as `namespace/name`.
    pub service: String,
    pub ports: Vec<Port>,
    pub source_ranges: Vec<String>,
    /// IDs of instances.
    pub targets: Vec<String>,
    pub address: String,
    /// When it is ready, in milliseconds since 1970.
    pub ready_at: u64,
}

/// A port of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    pub protocol: String,
    pub port: u16,
    pub node_port: u16,
}

/// What the cloud's operator can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// How long the creation of a load balancer takes, in milliseconds.
    pub load_balancer_delay: u64,
    pub quotas: Quotas,
    /// Requests per second beyond which the cloud throttles; none for no limit.
    pub requests_per_second: Option<f64>,
}

/// The most objects of each kind; none for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Quotas {
    pub instances: Option<usize>,
    pub load_balancers: Option<usize>,
    /// Of each network.
    pub routes: Option<usize>,
}

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound(String),
    QuotaExceeded(String),
    Invalid(String),
}

impl State {
    /// Reads the state from a file; an empty one if there is none.
    ///
    /// # Errors
    /// The file can't be read, or has no valid state.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!("the state of the cloud in {shown} is malformed: remove the file")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => {
                Err(error).with_context(|| format!("can't read the state of the cloud in {shown}"))
            }
        }
    }

    /// Writes the state to a file, whole or not at all.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let shown = path.display();
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| format!("can't write the state of the cloud to {shown}"))
    }

    /// Creates an instance. Its ID is its name unless it is given, and it runs unless it is stopped.
    ///
    /// # Errors
    /// It has no name, or exceeds the quota.
    pub fn create_instance(&mut self, mut instance: Instance) -> Result<Instance, Refusal> {
        if instance.name.is_empty() {
            return Err(Refusal::Invalid("an instance needs a name".into()));
        }
        if instance.id.is_empty() {
            instance.id.clone_from(&instance.name);
        }
        if instance.state.is_empty() {
            instance.state = "running".into();
        }
        let is_new = !self.instances.contains_key(&instance.id);
        admit(
            "instances",
            self.instances.len(),
            is_new,
            self.settings.quotas.instances,
        )?;
        self.instances.insert(instance.id.clone(), instance.clone());
        Ok(instance)
    }

    /// Creates or updates a load balancer. Returns it with whether it is new.
    ///
    /// # Errors
    /// It has no port, or exceeds the quota.
    pub fn put_load_balancer(
        &mut self,
        name: &str,
        wanted: LoadBalancer,
        now: u64,
    ) -> Result<(LoadBalancer, bool), Refusal> {
        if wanted.ports.is_empty() {
            return Err(Refusal::Invalid("a load balancer needs a port".into()));
        }
        let old = self.load_balancers.get(name);
        let (is_new, count) = (old.is_none(), self.load_balancers.len());
        let (address, ready_at) = match old {
            Some(old) => (old.address.clone(), old.ready_at),
            None => (
                self.free_address(&wanted.service),
                now + self.settings.load_balancer_delay,
            ),
        };
        admit(
            "load balancers",
            count,
            is_new,
            self.settings.quotas.load_balancers,
        )?;
        let load_balancer = LoadBalancer {
            name: name.into(),
            address,
            ready_at,
            ..wanted
        };
        self.load_balancers
            .insert(name.into(), load_balancer.clone());
        Ok((load_balancer, is_new))
    }

    /// Creates a route of a network.
    ///
    /// # Errors
    /// It is incomplete, its instance does not exist, or it exceeds the quota.
    pub fn create_route(&mut self, network: &str, route: Route) -> Result<Route, Refusal> {
        if route.id.is_empty() || route.destination.is_empty() {
            return Err(Refusal::Invalid(
                "a route needs an ID and a destination".into(),
            ));
        }
        if !self.instances.contains_key(&route.instance) {
            return Err(not_found("instance", &route.instance));
        }
        let routes = self.networks.entry(network.into()).or_default();
        let is_new = !routes.contains_key(&route.id);
        admit("routes", routes.len(), is_new, self.settings.quotas.routes)?;
        routes.insert(route.id.clone(), route.clone());
        Ok(route)
    }

    /// The address of a load balancer: the same one for a Service of this name, unless another has it.
    fn free_address(&self, service: &str) -> String {
        let mut hash = DefaultHasher::new();
        service.hash(&mut hash);
        let first = hash.finish() as u16;
        let address = |step: u16| {
            let [high, low] = first.wrapping_add(step).to_be_bytes();
            format!("198.18.{high}.{low}")
        };
        let is_free = |one: &String| !self.load_balancers.values().any(|own| own.address == *one);
        let mut all = (0..=u16::MAX).map(address);
        all.find(is_free).unwrap_or_else(|| address(0))
    }
}

/// The error that an object does not exist.
pub fn not_found(kind: &str, name: &str) -> Refusal {
    Refusal::NotFound(format!("there is no {kind} {name:?}"))
}

fn admit(kind: &str, count: usize, is_new: bool, quota: Option<usize>) -> Result<(), Refusal> {
    match quota {
        Some(quota) if is_new && count >= quota => Err(Refusal::QuotaExceeded(format!(
            "the quota of {quota} {kind} is exceeded"
        ))),
        _ => Ok(()),
    }
}

/// The present time in milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_balancer(service: &str) -> LoadBalancer {
        LoadBalancer {
            service: service.into(),
            ports: vec![Port::default()],
            ..LoadBalancer::default()
        }
    }

    #[test]
    fn the_state_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cloud.json");
        assert_eq!(State::read(&path).unwrap(), State::default());
        let mut state = State::default();
        let node = Instance {
            name: "a".into(),
            ..Instance::default()
        };
        state.create_instance(node).unwrap();
        state
            .put_load_balancer("lb", load_balancer("team/web"), 7)
            .unwrap();
        state.write(&path).unwrap();
        assert_eq!(State::read(&path).unwrap(), state);
        fs::write(&path, "{").unwrap();
        let error = State::read(&path).unwrap_err().to_string();
        assert!(error.contains("remove the file"), "{error}");
    }

    #[test]
    fn an_update_of_a_load_balancer_keeps_its_address_and_is_not_counted() {
        let mut state = State::default();
        state.settings.quotas.load_balancers = Some(1);
        state.settings.load_balancer_delay = 100;
        let (first, is_new) = state
            .put_load_balancer("lb", load_balancer("team/web"), 7)
            .unwrap();
        assert_eq!((is_new, first.ready_at), (true, 107));
        let (second, is_new) = state
            .put_load_balancer("lb", load_balancer("team/web"), 50)
            .unwrap();
        assert_eq!((is_new, &second), (false, &first));
        let error = state.put_load_balancer("other", load_balancer("team/web"), 7);
        assert!(matches!(error, Err(Refusal::QuotaExceeded(_))), "{error:?}");
    }

    #[test]
    fn services_have_different_addresses_and_get_the_same_ones_again() {
        let mut state = State::default();
        let mut addresses = Vec::new();
        for number in 0..300 {
            let name = format!("lb-{number}");
            let one = state.put_load_balancer(&name, load_balancer("team/web"), 0);
            addresses.push(one.unwrap().0.address);
        }
        let first = addresses[0].clone();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 300);
        state.load_balancers.clear();
        let again = state.put_load_balancer("new", load_balancer("team/web"), 0);
        assert_eq!(again.unwrap().0.address, first);
    }

    #[test]
    fn a_route_needs_its_instance() {
        let mut state = State::default();
        let route = Route {
            id: "r".into(),
            destination: "10.244.1.0/24".into(),
            instance: "a".into(),
            ..Route::default()
        };
        let error = state.create_route("net", route.clone()).unwrap_err();
        assert_eq!(
            error,
            Refusal::NotFound("there is no instance \"a\"".into())
        );
        let node = Instance {
            name: "a".into(),
            ..Instance::default()
        };
        assert_eq!(state.create_instance(node).unwrap().state, "running");
        state.create_route("net", route.clone()).unwrap();
        state.settings.quotas.routes = Some(1);
        state.create_route("net", route).unwrap();
    }
}
