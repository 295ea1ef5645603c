//! The API: paths and methods to operations of the state.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::state::{Instance, LoadBalancer, Refusal, Route, State, not_found};

/// A response: its status and its body.
pub type Answer = (u16, Value);

/// Answers a request to the cloud. The path begins with `/v1/`, and the query is that of the URL.
pub fn answer(
    state: &mut State,
    method: &str,
    path: &str,
    query: &str,
    body: &[u8],
    now: u64,
) -> Answer {
    let segments: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
    let done = match (method, &segments[..]) {
        ("GET", ["instances"]) => Ok(list_instances(state, query)),
        ("POST", ["instances"]) => parse(body).and_then(|instance| {
            let created = state.create_instance(instance)?;
            Ok((201, json!(created)))
        }),
        ("GET", ["instances", id]) => found("instance", id, state.instances.get(*id)),
        ("PATCH", ["instances", id]) => patch_instance(state, id, body),
        ("DELETE", ["instances", id]) => removed("instance", id, state.instances.remove(*id)),
        ("GET", ["networks", network, "routes"]) => Ok(list_routes(state, network, query)),
        ("POST", ["networks", network, "routes"]) => parse(body).and_then(|route: Route| {
            let created = state.create_route(network, route)?;
            Ok((201, json!(created)))
        }),
        ("DELETE", ["networks", network, "routes", id]) => {
            let routes = state.networks.get_mut(*network);
            removed("route", id, routes.and_then(|routes| routes.remove(*id)))
        }
        ("GET", ["load-balancers"]) => {
            let service = parameter(query, "service");
            let all = state.load_balancers.values();
            let some = all.filter(|one| service.is_none_or(|service| one.service == service));
            let some: Vec<Value> = some.map(|one| shown(one, now)).collect();
            Ok((200, json!({"loadBalancers": some})))
        }
        ("DELETE", ["load-balancers"]) => {
            let service = parameter(query, "service").unwrap_or_default();
            state.load_balancers.retain(|_, one| one.service != service);
            Ok((204, Value::Null))
        }
        ("PUT", ["load-balancers", name]) => parse(body).and_then(|wanted| {
            let (load_balancer, is_new) = state.put_load_balancer(name, wanted, now)?;
            Ok((if is_new { 201 } else { 200 }, shown(&load_balancer, now)))
        }),
        ("PUT", ["load-balancers", name, "targets"]) => set_targets(state, name, body, now),
        ("GET", ["load-balancers", name]) => {
            let one = state.load_balancers.get(*name);
            let one = one.map(|load_balancer| shown(load_balancer, now));
            found("load balancer", name, one.as_ref())
        }
        ("DELETE", ["load-balancers", name]) => {
            removed("load balancer", name, state.load_balancers.remove(*name))
        }
        _ => Err(Refusal::NotFound(format!(
            "{method} {path} is not a request of this cloud"
        ))),
    };
    done.unwrap_or_else(|refusal| match refusal {
        Refusal::NotFound(message) => error(404, "NotFound", &message),
        Refusal::QuotaExceeded(message) => error(403, "QuotaExceeded", &message),
        Refusal::Invalid(message) => error(400, "Invalid", &message),
    })
}

/// A response with an error.
pub fn error(status: u16, code: &str, message: &str) -> Answer {
    (status, json!({"error": {"code": code, "message": message}}))
}

/// The value of a parameter in a query. It is not decoded: the values of this API need no escapes.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(own, value)| (own == name).then_some(value))
}

fn list_instances(state: &State, query: &str) -> Answer {
    let name = parameter(query, "name");
    let all = state.instances.values();
    let some: Vec<&Instance> = all
        .filter(|one| name.is_none_or(|name| one.name == name))
        .collect();
    (200, json!({"instances": some}))
}

fn patch_instance(state: &mut State, id: &str, body: &[u8]) -> Result<Answer, Refusal> {
    let changes: Map<String, Value> = parse(body)?;
    let instance = state
        .instances
        .get_mut(id)
        .ok_or_else(|| not_found("instance", id))?;
    let mut changed = json!(instance);
    for (field, value) in changes {
        changed[field] = value;
    }
    *instance = serde_json::from_value(changed).map_err(invalid)?;
    instance.id = id.into();
    Ok((200, json!(instance)))
}

/// The routes of a network, with the names of their instances. A route whose instance is gone is a blackhole.
fn list_routes(state: &State, network: &str, query: &str) -> Answer {
    let destination = parameter(query, "destination");
    let all = state.networks.get(network).into_iter().flatten();
    let is_asked_for = |(_, route): &(&String, &Route)| {
        destination.is_none_or(|destination| route.destination == destination)
    };
    let routes = all.filter(is_asked_for);
    let shown = |(_, route): (&String, &Route)| {
        let mut shown = json!(route);
        let instance = state.instances.get(&route.instance);
        shown["blackhole"] = instance.is_none().into();
        shown["node"] = instance.map_or("", |one| one.name.as_str()).into();
        shown
    };
    (
        200,
        json!({"routes": routes.map(shown).collect::<Vec<_>>()}),
    )
}

fn set_targets(state: &mut State, name: &str, body: &[u8], now: u64) -> Result<Answer, Refusal> {
    let targets: LoadBalancer = parse(body)?;
    let one = state.load_balancers.get_mut(name);
    let one = one.ok_or_else(|| not_found("load balancer", name))?;
    one.targets = targets.targets;
    Ok((200, shown(one, now)))
}

/// A load balancer as the API shows it: without an address until it is ready.
fn shown(load_balancer: &LoadBalancer, now: u64) -> Value {
    let is_ready = load_balancer.ready_at <= now;
    let mut shown = json!(load_balancer);
    shown["state"] = if is_ready { "ready" } else { "creating" }.into();
    if !is_ready {
        shown["address"] = Value::Null;
    }
    shown
}

fn found(
    kind: &str,
    name: &str,
    object: Option<&impl serde::Serialize>,
) -> Result<Answer, Refusal> {
    match object {
        Some(object) => Ok((200, json!(object))),
        None => Err(not_found(kind, name)),
    }
}

fn removed<T>(kind: &str, name: &str, object: Option<T>) -> Result<Answer, Refusal> {
    match object {
        Some(_) => Ok((204, Value::Null)),
        None => Err(not_found(kind, name)),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(invalid)
}

fn invalid(error: serde_json::Error) -> Refusal {
    Refusal::Invalid(format!("the body is malformed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(state: &mut State, method: &str, path: &str, body: Value) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        answer(
            state,
            method,
            path,
            query,
            body.to_string().as_bytes(),
            1000,
        )
    }

    #[test]
    fn instances_are_created_found_changed_and_deleted() {
        let state = &mut State::default();
        let (status, created) = request(
            state,
            "POST",
            "/v1/instances",
            json!({"name": "a", "zone": "z"}),
        );
        assert_eq!(
            (status, &created["id"], &created["state"]),
            (201, &json!("a"), &json!("running"))
        );
        let found = request(state, "GET", "/v1/instances?name=a", Value::Null).1;
        assert_eq!(found["instances"], json!([created]));
        let none = request(state, "GET", "/v1/instances?name=b", Value::Null).1;
        assert_eq!(none["instances"], json!([]));
        let changed = request(
            state,
            "PATCH",
            "/v1/instances/a",
            json!({"state": "stopped"}),
        )
        .1;
        assert_eq!(
            (&changed["state"], &changed["zone"]),
            (&json!("stopped"), &json!("z"))
        );
        assert_eq!(
            request(state, "DELETE", "/v1/instances/a", Value::Null).0,
            204
        );
        assert_eq!(request(state, "GET", "/v1/instances/a", Value::Null).0, 404);
    }

    #[test]
    fn a_load_balancer_has_its_address_once_it_is_ready() {
        let state = &mut State::default();
        state.settings.load_balancer_delay = 500;
        let wanted = json!({"service": "team/web", "ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080}],
                            "targets": ["a"]});
        let (status, new) = request(state, "PUT", "/v1/load-balancers/lb", wanted.clone());
        assert_eq!(
            (status, &new["state"], &new["address"]),
            (201, &json!("creating"), &Value::Null)
        );
        let later = answer(state, "GET", "/v1/load-balancers/lb", "", b"", 1500).1;
        assert_eq!(later["state"], "ready");
        assert!(later["address"].is_string());
        assert_eq!(
            request(state, "PUT", "/v1/load-balancers/lb", wanted).0,
            200
        );
        let changed = request(
            state,
            "PUT",
            "/v1/load-balancers/lb/targets",
            json!({"targets": ["b"]}),
        )
        .1;
        assert_eq!(changed["targets"], json!(["b"]));
        assert_eq!(changed["ports"][0]["nodePort"], 30080);
        assert_eq!(
            request(state, "DELETE", "/v1/load-balancers/lb", Value::Null).0,
            204
        );
        assert_eq!(
            request(state, "DELETE", "/v1/load-balancers/lb", Value::Null).0,
            404
        );
    }

    #[test]
    fn a_route_becomes_a_blackhole_when_its_instance_is_gone() {
        let state = &mut State::default();
        request(state, "POST", "/v1/instances", json!({"name": "a"}));
        let route = json!({"id": "r", "destination": "10.244.1.0/24", "instance": "a"});
        assert_eq!(
            request(state, "POST", "/v1/networks/n/routes", route).0,
            201
        );
        let is_blackhole = |state: &mut State| {
            let routes = request(state, "GET", "/v1/networks/n/routes", Value::Null).1;
            routes["routes"][0]["blackhole"].clone()
        };
        assert_eq!(is_blackhole(state), false);
        request(state, "DELETE", "/v1/instances/a", Value::Null);
        assert_eq!(is_blackhole(state), true);
        assert_eq!(
            request(state, "DELETE", "/v1/networks/n/routes/r", Value::Null).0,
            204
        );
        assert_eq!(
            request(state, "GET", "/v1/networks/n/routes", Value::Null).1["routes"],
            json!([])
        );
    }

    #[test]
    fn refusals_have_a_code() {
        let state = &mut State::default();
        state.settings.quotas.instances = Some(0);
        for (method, path, body, status, code) in [
            (
                "POST",
                "/v1/instances",
                json!({"name": "a"}),
                403,
                "QuotaExceeded",
            ),
            ("POST", "/v1/instances", json!({}), 400, "Invalid"),
            ("POST", "/v1/instances", json!(1), 400, "Invalid"),
            ("PUT", "/v1/load-balancers/a", json!({}), 400, "Invalid"),
            ("GET", "/v1/load-balancers/a", Value::Null, 404, "NotFound"),
            ("GET", "/v1/other", Value::Null, 404, "NotFound"),
        ] {
            let (own, answer) = request(state, method, path, body);
            assert_eq!(
                (own, &answer["error"]["code"]),
                (status, &json!(code)),
                "{method} {path}"
            );
        }
    }
}
