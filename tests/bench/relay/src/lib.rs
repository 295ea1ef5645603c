//! Copies the values of the ConfigMaps of one namespace to those of the next.
//!
//! There may be many of it: whoever wants another one writes another number into the component. It is the plugin's name, which
//! is the name of the namespace too.

use flyball_sdk::prelude::*;

/// What is numbered.
static NAME: &str = "relay-0000";
/// How many there are: the last one's next is the first.
const COUNT: &str = "count";

view! {
    struct ConfigMap: "v1/ConfigMap" {
        meta: Meta = "metadata" [".name"],
        value: Option<String> = "data.value",
    }
}

/// Keeps the ConfigMaps of the next namespace.
pub struct Relay;

export!(Relay);

impl Controller for Relay {
    fn describe() -> Description {
        describe(name(), env!("CARGO_PKG_VERSION"))
            .watch(watch::<ConfigMap>().itself().having("metadata.namespace", name()))
            .queue("relay")
            .config(COUNT, Some("2"), "how many relays there are")
            .allow(ConfigMap::KIND, ["get", "create", "update"])
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Key { namespace, name } = &request.key;
        let count = host.config(COUNT).and_then(|count| count.parse().ok()).unwrap_or(2);
        let next = next(namespace, count);
        let Some(ConfigMap { value: Some(value), .. }) = host.get(namespace, name)? else { return Ok(Outcome::Done) };
        match host.get::<ConfigMap>(&next, name)? {
            None => drop(host.create(
                ConfigMap::KIND,
                &next,
                &json!({"metadata": {"name": name}, "data": {"value": value}}),
            )?),
            Some(copy) if copy.value.as_deref() != Some(&*value) => {
                drop(host.modify(ConfigMap::KIND, &copy.meta, &json!({"data": {"value": value}}))?);
            }
            Some(_) => {}
        }
        Ok(Outcome::Done)
    }
}

/// The name, read from the component's memory, so that it is there in one piece.
fn name() -> &'static str {
    std::hint::black_box(NAME)
}

/// The namespace after this one, of so many.
fn next(namespace: &str, count: u32) -> String {
    let (stem, number) = namespace.rsplit_once('-').unwrap_or((namespace, "0"));
    let number: u32 = number.parse().unwrap_or(0);
    format!("{stem}-{:04}", (number + 1) % count.max(1))
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
    fn a_value_goes_on_once() {
        let cluster = Cluster::with([map("relay-0000", "1")]);
        for _ in 0..2 {
            cluster.reconcile::<Relay>("relay-0000/token").unwrap();
        }
        assert_eq!(cluster.written(), ["create v1/ConfigMap relay-0001/token"]);
        let cluster = Cluster::with([map("relay-0000", "2"), map("relay-0001", "1")]);
        cluster.reconcile::<Relay>("relay-0000/token").unwrap();
        assert_eq!(cluster.written(), ["update v1/ConfigMap relay-0001/token"]);
    }

    #[test]
    fn the_last_is_followed_by_the_first() {
        assert_eq!(next("relay-0008", 10), "relay-0009");
        assert_eq!(next("relay-0009", 10), "relay-0000");
    }
}
