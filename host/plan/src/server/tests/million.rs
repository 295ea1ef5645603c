//! A plan over a cluster of a million objects, which exist only in the pages that the plan asks for.

use std::cell::Cell;
use std::net::Ipv4Addr;

use flyball_testserver::api::discovery::groups;
use tokio::task::spawn_local;

use super::*;

const OBJECTS: usize = 1_000_000;

/// The number of objects that the cluster has sent.
type Sent = Rc<Cell<usize>>;

/// Starts the cluster. Returns its address, too.
async fn cluster() -> (String, Sent) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let sent = Sent::default();
    spawn_local(accept(listener, Rc::new(Rc::clone(&sent)), answer));
    (format!("http://{address}"), sent)
}

async fn answer(
    sent: Rc<Sent>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let body = match (path, path.strip_prefix(MAPS)) {
        ("/api", _) => groups(&served(), true),
        ("/apis", _) => groups(&served(), false),
        (_, Some("")) => page(&sent, query),
        (_, Some(name)) => {
            sent.set(sent.get() + 1);
            stored(name.trim_start_matches('/'))
        }
        (_, None) => Value::Null,
    };
    let mut response = Response::new(Either::Left(Full::from(body.to_string())));
    if body.is_null() {
        *response.status_mut() = http::StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// An object as the cluster has stored it.
fn stored(name: &str) -> Value {
    let mut object = map("shop", name);
    object["metadata"]["uid"] = name.into();
    object["metadata"]["resourceVersion"] = "1".into();
    object
}

/// A page of the list. The token to continue is the number of its first object.
fn page(sent: &Cell<usize>, query: &str) -> Value {
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(own, value)| (own == name).then(|| value.parse().ok())?)
    };
    let from: usize = parameter("continue").unwrap_or(0);
    let limit: usize = parameter("limit").expect("nobody asks for a million objects at once");
    let to = (from + limit).min(OBJECTS);
    sent.set(sent.get() + to - from);
    let items = (from..to).map(|number| stored(&format!("map-{number:07}")));
    let next = if to < OBJECTS {
        to.to_string()
    } else {
        String::new()
    };
    let metadata = json!({"resourceVersion": "1", "continue": next});
    json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items.collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_plan_over_a_million_objects_asks_for_no_more_than_it_may_write() {
    let run = async {
        let (url, sent) = cluster().await;
        let config = kube::Config::new(url.parse().expect("a URL"));
        let base = ClusterBase::new(&config, false).expect("it needs no credentials");
        let base = Base::Cluster(base);
        let kinds = base.kinds().await.expect("the cluster answers");
        let plan = Shared::new(base, kinds, options());

        let path = format!("{MAPS}?limit=100");
        let list = plan.json(Method::GET, &path, Value::Null).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(100));
        assert!(list["metadata"]["continue"].is_string(), "there are more");
        assert_eq!(sent.get(), 100);

        // A plugin that would delete all of them.
        assert_eq!(plan.refusal(Method::DELETE, MAPS, Value::Null).await, 429);
        let most = options().max_writes;
        let deleted = plan.outcome().len();
        assert!(0 < deleted && deleted <= most, "{deleted} were deleted");
        assert!(sent.get() < 10_000, "{} objects were read", sent.get());
        let state = plan.state.borrow();
        assert!(state.is_full && state.overlay.taken().len() <= most);
    };
    LocalSet::new().run_until(run).await;
}
