//! Copies the values of the ConfigMaps of one namespace to those of the next.
//!
//! A cluster can run many relays. The benchmark creates each by overwriting the name in the
//! component, which has the relay's number and the number of relays. The name is that of the plugin
//! and of the namespace.

use flyball_sdk::prelude::*;

/// The name that is overwritten.
static NAME: &str = "relay-0000-of-0002";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct ConfigMap {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
    #[view(path = "data.value")]
    value: Option<String>,
}

/// Manages the ConfigMaps of the next namespace.
pub struct Relay;

export!(Relay);

impl Controller for Relay {
    fn describe() -> Description {
        describe(name(), env!("CARGO_PKG_VERSION"))
            .watch(
                watch::<ConfigMap>()
                    .enqueue(Mapping::itself().having("metadata.namespace", name())),
            )
            .queue("relay")
            .concurrency(4)
            .permission(ConfigMap::KIND, ["get", "create", "update"])
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Key { namespace, name } = &request.key;
        let next = next(namespace);
        let Some(ConfigMap {
            value: Some(value), ..
        }) = host.get(namespace, name)?
        else {
            return Ok(Outcome::Done);
        };
        match host.get::<ConfigMap>(&next, name)? {
            None => drop(host.create(
                ConfigMap::KIND,
                &next,
                &json!({"metadata": {"name": name}, "data": {"value": value}}),
            )?),
            Some(copy) if copy.value.as_deref() != Some(&*value) => {
                drop(host.update(
                    ConfigMap::KIND,
                    &copy.meta,
                    &json!({"data": {"value": value}}),
                )?);
            }
            Some(_) => {}
        }
        Ok(Outcome::Done)
    }
}

/// The name, read from the component's memory. Without this, the compiler could inline parts of it,
/// and the name would not be contiguous in the component.
fn name() -> &'static str {
    std::hint::black_box(NAME)
}

/// The namespace after this one. The first namespace follows the last.
fn next(namespace: &str) -> String {
    let mut numbers = namespace
        .split('-')
        .filter_map(|part| part.parse::<u32>().ok());
    let (number, count) = (
        numbers.next().unwrap_or(0),
        numbers.next().unwrap_or(1).max(1),
    );
    format!("relay-{:04}-of-{count:04}", (number + 1) % count)
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    fn map(namespace: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "token", "namespace": namespace},
               "data": {"value": value}})
    }

    #[test]
    fn a_value_is_copied_once() {
        let cluster = Cluster::with([map("relay-0000-of-0002", "1")]);
        for _ in 0..2 {
            cluster
                .reconcile::<Relay>("relay-0000-of-0002/token")
                .unwrap();
        }
        assert_eq!(
            cluster.written(),
            ["create v1/ConfigMap relay-0001-of-0002/token"]
        );
        let cluster = Cluster::with([
            map("relay-0000-of-0002", "2"),
            map("relay-0001-of-0002", "1"),
        ]);
        cluster
            .reconcile::<Relay>("relay-0000-of-0002/token")
            .unwrap();
        assert_eq!(
            cluster.written(),
            ["update v1/ConfigMap relay-0001-of-0002/token"]
        );
    }

    #[test]
    fn the_first_namespace_follows_the_last() {
        assert_eq!(next("relay-0008-of-0010"), "relay-0009-of-0010");
        assert_eq!(next("relay-0009-of-0010"), "relay-0000-of-0010");
    }
}
