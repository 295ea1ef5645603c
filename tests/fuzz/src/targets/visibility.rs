//! A plugin's view under a policy: no byte outside the granted fields leaves the host.
//!
//! A script (`visibility/script.rs`) makes up a policy, a description, an API server with a few objects
//! (`visibility/server.rs`) and the host calls of a guest. The manager's own code decides on the grant,
//! fills the caches, runs the calls and routes the objects' changes. Two properties hold of all that
//! comes out:
//!
//! - Each string of an object that shows up is one that the policy grants for this kind, namespace
//!   and verb. The strings are markers, so that a leak is found wherever it shows.
//! - Nothing depends on what is not granted: if all of it is replaced or removed, the same comes out.
//!   So no index, selector, predicate or order tells of a hidden field either.
//!
//! `visibility/model.rs` decides what is granted. It shares no code with the host's decisions except the parser of
//! field paths.

mod guest_calls;
mod host_calls;
mod model;
mod plugin_view;
mod script;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{Budget, Operation, Read, Write};
use flyball_types::{ApiError, Kind};

pub(super) use self::host_calls::HOST_CALLS;
use self::model::{Grant, concealed, visibility, visible_markers};
use self::plugin_view::PluginView;
use self::script::{Call, Script, query};
use self::server::Object;
use super::{Target, Verdict};

pub(super) const DESCRIPTION_POLICY: Target = Target {
    name: "description-policy",
    tokens: || TOKENS.to_vec(),
    feed: description_policy,
};

const TOKENS: &[&str] = &[
    "\nallow v1/Secret watch,get,list - - data.a metadata.labels\n",
    "\nallow v1/Secret watch - demo data\n",
    "\nallow * watch - - metadata.name\n",
    "\nallow v1/ConfigMap get - other\n",
    "\nallow v1/Secret update,patch,create,delete - -\n",
    "\nallow v1/Secret get status demo list[type=#1#].value\n",
    "\nimport raw\n",
    "\nwatch v1/Secret - data.a\n",
    "\nwatch v1/ConfigMap demo .\n",
    "\nwatch * - metadata.labels\n",
    "\nlabels app=#1#\n",
    "\nfields metadata.name=o0\n",
    "\nchanges labels\n",
    "\nchanges data.b\n",
    "\nmap itself\n",
    "\nmap route\n",
    "\nmap named data.a\n",
    "\nmap selecting v1/Secret spec.selector\n",
    "\nmap owner v1/Secret\n",
    "\nmap dependents\n",
    "\nmap ownerReferences missing\n",
    "\nmap ownerReferences deleting\n",
    "\nhaving data.b #2#\n",
    "\nwhose data.a #0#\n",
    "\norphans\n",
    "\ndeleting\n",
    "\nindex i v1/Secret data.a\n",
    "\nobject v1/Secret {\"metadata\":{\"labels\":{\"app\":\"?\"}},\"data\":{\"a\":\"?\",\"?k\":\"?\"}}\n",
    "\nthen {\"data\":{\"a\":\"?\",\"b\":[\"?\",\"?\"]}}\n",
    "\nobject v1/Node {\"list\":[{\"type\":\"?\",\"value\":\"?\"},{\"type\":\"Ready\",\"value\":{\"?\":\"?\"}}]}\n",
    "\nget v1/Secret demo o0\n",
    "\nlist v1/Secret -\n",
    "\nlist * - metadata.labels\n",
    "\nrows v1/Secret - data.a data[*]\n",
    "\ncount v1/Secret demo\n",
    "\nwhere labels app=#1#\n",
    "\nwhere index/i #0#\n",
    "\nwhere owner u0\n",
    "\nwhere orphan\n",
    "\nlive-get v1/Secret demo o0\n",
    "\nlive-list v1/Secret demo metadata.labels\n",
    "\nparameter fieldSelector data.a=#0#\n",
    "\nparameter labelSelector app\n",
    "\nraw /api/v1/namespaces/demo/secrets/o0\n",
    "\nraw /api/v1/secrets?labelSelector=app\n",
    "\nwrite patch v1/Secret - demo o0 data\n",
    "\nwrite create v1/Secret token demo o0 .\n",
    "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"name\":\"o0\",\"uid\":\"u0\",\"controller\":true}]",
    "\"deletionTimestamp\":\"?\",\"finalizers\":[\"?\"]",
    "\"generation\":7",
    "[*]",
    "[type=Ready]",
    "data['?']",
    "%2e%2e/",
    "watch/",
    "*",
    ".",
];

/// How long the caches may take to sync, by a clock that stands still while anything runs.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of grants of calls for which the hidden fields are replaced.
const MAX_GRANTS: usize = 6;

/// The limit on the bytes that the host holds for the plugin.
const HELD: usize = 16 << 20;

/// The outputs of the host, each with the grant that it needs.
type Shown = Vec<(Grant, String)>;

fn description_policy(input: &[u8]) -> Verdict {
    let script = Script::parse(&String::from_utf8_lossy(input));
    let shown = match run(&script, &script.objects)? {
        Ok(shown) => shown,
        Err(refused) => return Ok(refused),
    };
    let markers = check_markers(&script, &shown)?;
    let grants: BTreeSet<&Grant> = shown.iter().map(|(grant, _)| grant).collect();
    for grant in grants.iter().take(MAX_GRANTS) {
        check_independence(&script, grant, &shown)?;
    }
    let denied = shown.iter().filter(|(_, text)| text.starts_with("Err"));
    Ok(format!(
        "shown {} texts, {} of them errors, by {} grants, with {} markers",
        shown.len(),
        denied.count(),
        grants.len(),
        markers,
    ))
}

/// Checks that each marker that shows may be seen. Returns how many show.
fn check_markers(script: &Script, shown: &Shown) -> Result<usize, String> {
    let mut known: BTreeMap<&Grant, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0;
    for (grant, text) in shown {
        let visible = known.entry(grant).or_insert_with(|| {
            let mut visible = BTreeSet::new();
            for object in &script.objects {
                let visibility = visibility(&script.rules, grant, object);
                for version in [Some(&object.version), object.later.as_ref()]
                    .into_iter()
                    .flatten()
                {
                    visible_markers(version, &visibility, &mut visible);
                }
            }
            visible
        });
        for marker in markers(text) {
            // A message may repeat the guest's own text.
            if !visible.contains(marker) && !script.guest_text.contains(marker) {
                return Err(format!(
                    "{grant:?} does not let the plugin see {marker}, which shows in {text}"
                ));
            }
            count += 1;
        }
    }
    Ok(count)
}

/// The markers in a text, as in `#12#`.
fn markers(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('#').filter_map(|(at, _)| {
        let digits = text[at + 1..].find(|c: char| !c.is_ascii_digit())?;
        let end = at + 1 + digits;
        (digits > 0 && text[end..].starts_with('#')).then(|| &text[at..=end])
    })
}

/// Checks that the texts with this grant stay the same if everything that the grant hides is different.
fn check_independence(script: &Script, grant: &Grant, shown: &Shown) -> Result<(), String> {
    let objects: Vec<Object> = script
        .objects
        .iter()
        .filter_map(|object| concealed(object, &visibility(&script.rules, grant, object)))
        .collect();
    let other = run(script, &objects)?.map_err(|refused| {
        format!("{grant:?}: with other hidden fields, the plugin does not run: {refused}")
    })?;
    let with = |shown: &Shown| -> Vec<String> {
        let granted = shown.iter().filter(|(own, _)| own == grant);
        granted.map(|(_, text)| text.clone()).collect()
    };
    let (one, other) = (with(shown), with(&other));
    if one == other {
        return Ok(());
    }
    let differing = one.iter().zip(&other).find(|(one, other)| one != other);
    let (one, other) = match differing {
        Some((one, other)) => (one.clone(), other.clone()),
        None => (format!("{one:?}"), format!("{other:?}")),
    };
    Err(format!(
        "{grant:?}: a hidden field decides whether {one} or {other} comes out"
    ))
}

/// Runs a script on a server with these objects. The inner error says why the plugin does not run.
fn run(script: &Script, objects: &[Object]) -> Result<Result<Shown, String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    Ok(runtime.block_on(async {
        let server = server::connection(objects.to_vec());
        let (policy, description) = (script.policy(), script.description());
        let open = PluginView::open(&policy, &description, server, Budget::new(HELD));
        let view = match tokio::time::timeout(SYNC_TIMEOUT, open).await {
            Ok(view) => view?,
            Err(_) => return Err("the caches are not synced".to_owned()),
        };
        let mut shown = Shown::new();
        for call in &script.calls {
            shown.push(perform(&view, call).await);
        }
        let later: Vec<(Kind, Bytes)> = objects
            .iter()
            .filter_map(|object| {
                let json = object.json(object.later.as_ref()?).to_string();
                Some((object.kind.parse().ok()?, json.into()))
            })
            .collect();
        let routed = view.routed(&later).await;
        shown.extend(routed.into_iter().map(|text| (Grant::Watch, text)));
        view.close().await;
        Ok(shown)
    }))
}

async fn perform(view: &PluginView, call: &Call) -> (Grant, String) {
    match call {
        Call::Get {
            kind,
            namespace,
            name,
            fields,
        } => {
            let found = view.get(kind, namespace, name, fields);
            let found = found.map(|found| found.map(|json| text(&json)));
            (Grant::Watch, outcome(found))
        }
        Call::List {
            kind,
            namespace,
            conditions,
            projection,
        } => {
            let found = query(kind, namespace, conditions).map(|query| {
                let listed = view.list(&query, projection, 2);
                outcome(listed.map(|json| text(&json)))
            });
            (Grant::Watch, found.unwrap_or_else(|error| error))
        }
        Call::Count {
            kind,
            namespace,
            conditions,
        } => {
            let found = query(kind, namespace, conditions).map(|query| outcome(view.count(&query)));
            (Grant::Watch, found.unwrap_or_else(|error| error))
        }
        Call::Live(read) => {
            let found = view.read(read.clone()).await;
            (live(read), outcome(found.map(|json| text(&json))))
        }
        Call::Write(write) => {
            let answer = view.write(write.clone()).await;
            (answered(write), outcome(answer.map(|json| text(&json))))
        }
    }
}

/// The grant that a live read needs. For a raw read it follows from the server's interpretation of the path.
fn live(read: &Read) -> Grant {
    let (verb, subresource) = match read {
        Read::Get { .. } => ("get", String::new()),
        Read::List { .. } => ("list", String::new()),
        Read::Raw { path } => match server::place(path) {
            Some(place) if place.name.is_empty() => ("list", String::new()),
            place => ("get", place.unwrap_or_default().subresource),
        },
    };
    Grant::Live { verb, subresource }
}

fn answered(write: &Write) -> Grant {
    Grant::Answer {
        creates: matches!(write.operation, Operation::Create { .. }),
        subresource: write.subresource().to_owned(),
    }
}

fn text(json: &[u8]) -> String {
    String::from_utf8_lossy(json).into_owned()
}

fn outcome<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
    match result {
        Ok(value) => format!("Ok({value:?})"),
        Err(error) => format!("Err({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = "allow v1/Secret watch,get - - list[type=Ready].value data.a\n\
        object v1/Secret {\"data\":{\"a\":\"?\",\"b\":\"?\"},\"list\":[{\"type\":\"Ready\",\"value\":\"?\"},{\"type\":\"?\"}]}\n";

    #[test]
    fn a_marker_that_is_not_granted_is_a_leak() {
        let script = Script::parse(OBJECT);
        let check = |text: &str| check_markers(&script, &vec![(Grant::Watch, text.to_owned())]);
        assert_eq!(check("{\"a\":\"#0#\",\"value\":\"#2#\"}"), Ok(2));
        for leak in ["#1#", "x #3# y"] {
            assert!(check(leak).is_err(), "{leak}");
        }
        let list = Grant::Live {
            verb: "list",
            subresource: String::new(),
        };
        assert!(check_markers(&script, &vec![(list, "#0#".to_owned())]).is_err());
    }

    #[test]
    fn what_is_granted_stays_and_all_else_differs() {
        let script = Script::parse(OBJECT);
        let object = &script.objects[0];
        let seen = visibility(&script.rules, &Grant::Watch, object);
        let other = concealed(object, &seen)
            .expect("the object is seen")
            .version;
        assert_eq!(other["data"]["a"], object.version["data"]["a"]);
        assert_eq!(other["metadata"], object.version["metadata"]);
        assert_eq!(other["list"][0], object.version["list"][0]);
        assert_eq!(other["list"][1]["type"], "~3~");
        assert_ne!(other["data"].get("b"), object.version["data"].get("b"));
        let unseen = Grant::Live {
            verb: "list",
            subresource: String::new(),
        };
        assert!(concealed(object, &visibility(&script.rules, &unseen, object)).is_none());
    }

    #[test]
    fn a_script_shows_what_is_granted() {
        let script = Script::parse(&format!(
            "{OBJECT}watch v1/Secret - data.a\nmap itself\nlist v1/Secret -\nlive-get v1/Secret demo o0\n"
        ));
        let shown = run(&script, &script.objects).unwrap().unwrap();
        let shows = |grant: &Grant, marker: &str| {
            let mut texts = shown.iter().filter(|(own, _)| own == grant);
            texts.any(|(_, text)| text.contains(marker))
        };
        let get = Grant::Live {
            verb: "get",
            subresource: String::new(),
        };
        assert!(
            shows(&Grant::Watch, "#0#") && !shows(&Grant::Watch, "#2#"),
            "{shown:?}"
        );
        assert!(shows(&get, "#0#") && shows(&get, "#2#"), "{shown:?}");
        assert!(shows(&Grant::Watch, "demo/o0"), "{shown:?}");
    }
}
