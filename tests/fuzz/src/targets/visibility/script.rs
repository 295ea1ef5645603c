//! The input of the target: lines that make up a policy, a description, the objects of an API server and the host calls
//! of a guest. Whatever a line holds, most scripts are a valid policy and description, so that mutations reach the
//! checks behind the parsers. A line that can't be parsed is left out.
//!
//! ```text
//! allow KINDS VERBS SUBRESOURCE NAMESPACES FIELD…   a rule; lists have commas, and `-` is empty
//! import NAME
//! watch KIND NAMESPACE FIELD…                       `*` discovers kinds
//! labels SELECTOR, fields SELECTOR                  of the last watch
//! changes PATH                                      or `generation`, `labels`
//! map TO ARGUMENT…                                  a mapping of the last watch
//! having PATH VALUE, whose PATH VALUE, orphans, deleting
//! index NAME KIND PATH
//! object KIND JSON                                  then, for a later version: `then JSON`
//! get KIND NAMESPACE NAME FIELD…                    cached reads
//! list|rows|count KIND NAMESPACE FIELD…
//! where NAME VALUE                                  a condition of the last cached read
//! live-get KIND NAMESPACE NAME FIELD…               reads of the server
//! live-list KIND NAMESPACE FIELD…
//! parameter NAME VALUE                              of the last live list
//! raw PATH
//! write VERB KIND SUBRESOURCE NAMESPACE NAME FIELD…
//! ```
//!
//! In an object, each string `?` and each key that begins with `?` becomes a marker that no other
//! place has: see [`Marker`].

use flyball_plugin::{Operation, Read, Target, Write};
use flyball_types::{Projection, Query};
use serde_json::{Map, Value, json};

use super::server::{Object, is_namespaced};

/// The most lines of one kind, so that an input takes milliseconds.
const MAX_LINES: usize = 8;

/// A rule of the policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    pub(super) kinds: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) subresource: String,
    pub(super) namespaces: Vec<String>,
    pub(super) fields: Vec<String>,
}

/// A host call.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Get {
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    },
    List {
        kind: String,
        namespace: String,
        conditions: Vec<(String, String)>,
        projection: Projection,
    },
    Count {
        kind: String,
        namespace: String,
        conditions: Vec<(String, String)>,
    },
    Live(Read),
    Write(Write),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) rules: Vec<Rule>,
    imports: Vec<String>,
    watches: Vec<Map<String, Value>>,
    indexes: Vec<Value>,
    pub(super) objects: Vec<Object>,
    pub(super) calls: Vec<Call>,
    /// The lines without the objects. A marker that they name may come back in a message.
    pub(super) guest_text: String,
    markers: usize,
}

impl Script {
    pub(super) fn parse(text: &str) -> Self {
        let mut script = Self::default();
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "object" => {
                    if let Some((kind, json)) = rest.split_once(' ') {
                        script.add_object(kind, json);
                    }
                }
                "then" => script.add_version(rest),
                _ => {
                    script.guest_text.push_str(rest);
                    let words: Vec<&str> = rest.split_whitespace().collect();
                    // A line of too few words is left out, too.
                    let _ = script.add(word, &words);
                }
            }
        }
        script
    }

    fn add(&mut self, word: &str, words: &[&str]) -> Option<()> {
        match (word, words) {
            ("allow", [kinds, verbs, subresource, namespaces, fields @ ..]) => {
                let rule = Rule {
                    kinds: listed(kinds),
                    verbs: listed(verbs),
                    subresource: text(subresource),
                    namespaces: listed(namespaces),
                    fields: owned(fields),
                };
                push(&mut self.rules, rule);
            }
            ("import", [name]) => push(&mut self.imports, text(name)),
            ("watch", [kind, namespace, fields @ ..]) => {
                let mut watch = match *kind {
                    "*" => Map::from_iter([("discovered".to_owned(), json!({"periodMs": 1000}))]),
                    kind => Map::from_iter([("kind".to_owned(), kind.into())]),
                };
                watch.insert("namespace".into(), text(namespace).into());
                watch.insert("fields".into(), owned(fields).into());
                push(&mut self.watches, watch);
            }
            ("labels", [selector]) => self.set("labelSelector", (*selector).into())?,
            ("fields", [selector]) => self.set("fieldSelector", (*selector).into())?,
            ("changes", [path]) => {
                let change = match *path {
                    "generation" | "labels" => (*path).into(),
                    path => json!({"path": path}),
                };
                self.extend("changes", change)?;
            }
            ("map", [to, arguments @ ..]) => self.extend("map", mapping(to, arguments)?)?,
            ("having" | "whose", [path, value]) => {
                let mapping = self.last_mapping()?;
                let values = mapping.entry(word).or_insert_with(|| json!([]));
                push(
                    values.as_array_mut()?,
                    json!({"path": path, "value": value}),
                );
            }
            ("orphans" | "deleting", []) => {
                self.last_mapping()?.insert(word.into(), true.into());
            }
            ("index", [name, kind, path]) => push(
                &mut self.indexes,
                json!({"name": name, "kind": kind, "path": path}),
            ),
            ("where", [name, value @ ..]) => {
                if let Call::List { conditions, .. } | Call::Count { conditions, .. } =
                    self.calls.last_mut()?
                {
                    push(conditions, (text(name), value.join(" ")));
                }
            }
            ("parameter", [name, value]) => {
                if let Call::Live(Read::List { parameters, .. }) = self.calls.last_mut()? {
                    push(parameters, (text(name), text(value)));
                }
            }
            _ => push(&mut self.calls, call(word, words)?),
        }
        Some(())
    }

    fn set(&mut self, name: &str, value: Value) -> Option<()> {
        self.watches.last_mut()?.insert(name.into(), value);
        Some(())
    }

    /// Adds to a list of the last watch.
    fn extend(&mut self, name: &str, value: Value) -> Option<()> {
        let list = self.watches.last_mut()?.entry(name);
        push(list.or_insert_with(|| json!([])).as_array_mut()?, value);
        Some(())
    }

    fn last_mapping(&mut self) -> Option<&mut Map<String, Value>> {
        let mappings = self.watches.last_mut()?.get_mut("map")?.as_array_mut()?;
        mappings.last_mut()?.as_object_mut()
    }

    fn add_object(&mut self, kind: &str, json: &str) {
        let number = self.objects.len();
        let defaults = (
            format!("o{number}"),
            "demo".to_owned(),
            format!("u{number}"),
        );
        let Some(version) = self.version(kind, json, &defaults, "10") else {
            return;
        };
        let object = Object {
            kind: kind.into(),
            version,
            later: None,
        };
        let is_like = |other: &Object| {
            other.uid() == object.uid()
                || (&other.kind, other.namespace(), other.name())
                    == (&object.kind, object.namespace(), object.name())
        };
        if !self.objects.iter().any(is_like) {
            push(&mut self.objects, object);
        }
    }

    fn add_version(&mut self, json: &str) {
        let Some(mut object) = self.objects.pop() else {
            return;
        };
        let own = |field: &str| {
            let value = object.version["metadata"][field].as_str();
            value.unwrap_or_default().to_owned()
        };
        let identity = (own("name"), own("namespace"), own("uid"));
        object.later = self.version(&object.kind, json, &identity, "20");
        if let Some(Value::Object(metadata)) = object.later.as_mut().map(|v| &mut v["metadata"]) {
            let (name, namespace, uid) = identity;
            metadata.insert("name".into(), name.into());
            metadata.insert("uid".into(), uid.into());
            if is_namespaced(&object.kind) {
                metadata.insert("namespace".into(), namespace.into());
            }
        }
        self.objects.push(object);
    }

    /// Parses a version of an object and completes its identity: name, namespace and UID.
    fn version(
        &mut self,
        kind: &str,
        json: &str,
        (name, namespace, uid): &(String, String, String),
        resource_version: &str,
    ) -> Option<Value> {
        let mut version: Value = serde_json::from_str(json).ok()?;
        self.mark(&mut version);
        let fields = version.as_object_mut()?;
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if !metadata.is_object() {
            *metadata = json!({});
        }
        let metadata = metadata.as_object_mut()?;
        let set = |metadata: &mut Map<String, Value>, field: &str, default: &str| {
            let is_set = metadata
                .get(field)
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty() && !text.contains('#'));
            if !is_set {
                metadata.insert(field.into(), default.into());
            }
        };
        set(metadata, "name", name);
        set(metadata, "uid", uid);
        match is_namespaced(kind) {
            true => set(metadata, "namespace", namespace),
            false => drop(metadata.remove("namespace")),
        }
        metadata.insert("resourceVersion".into(), resource_version.into());
        Some(version)
    }

    /// Replaces `?` by markers.
    fn mark(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if text == "?" => *text = self.marker(),
            Value::String(text) => *text = text.replace(['#', '~'], "_"),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mark(item)),
            Value::Object(fields) => {
                for (name, mut value) in std::mem::take(fields) {
                    self.mark(&mut value);
                    let name = match name.starts_with('?') {
                        true => self.marker(),
                        false => name.replace(['#', '~'], "_"),
                    };
                    fields.insert(name, value);
                }
            }
            _ => {}
        }
    }

    fn marker(&mut self) -> String {
        let number = self.markers;
        self.markers += 1;
        format!("#{number}#")
    }

    pub(super) fn policy(&self) -> String {
        let list = |items: &[String]| Value::from(items.to_vec()).to_string();
        let mut policy = format!("[plugins.fuzz]\nimports = {}\n", list(&self.imports));
        for rule in &self.rules {
            policy.push_str(&format!(
                "[[plugins.fuzz.allow]]\nkinds = {}\nverbs = {}\nsubresource = {}\nnamespaces = {}\nfields = {}\n",
                list(&rule.kinds),
                list(&rule.verbs),
                Value::from(&*rule.subresource),
                list(&rule.namespaces),
                list(&rule.fields),
            ));
        }
        policy
    }

    pub(super) fn description(&self) -> String {
        json!({
            "format": 1, "name": "fuzz", "queues": [{"name": "q"}],
            "watches": self.watches, "indexes": self.indexes, "imports": self.imports,
        })
        .to_string()
    }
}

/// The query of a cached read. Its conditions are parsed as the host parses a guest's.
pub(super) fn query(
    kind: &str,
    namespace: &str,
    conditions: &[(String, String)],
) -> Result<Query, String> {
    let query = Query::parse(kind.into(), namespace.into(), conditions.iter().cloned());
    query.map_err(|error| error.message)
}

fn mapping(to: &str, arguments: &[&str]) -> Option<Value> {
    Some(match (to, arguments) {
        ("named", [path]) => json!({"to": to, "path": path, "namespaced": true}),
        ("selecting", [kind, path]) => json!({"to": to, "kind": kind, "path": path}),
        ("controller" | "owner" | "inNamespace" | "all", [kind]) => {
            json!({"to": to, "kind": kind})
        }
        ("constant", [key]) => json!({"to": to, "key": key}),
        ("ownerReferences", [which]) => json!({"to": to, "which": which}),
        (_, []) => json!({"to": to}),
        _ => return None,
    })
}

fn call(word: &str, words: &[&str]) -> Option<Call> {
    Some(match (word, words) {
        ("get", [kind, namespace, name, fields @ ..]) => Call::Get {
            kind: text(kind),
            namespace: text(namespace),
            name: text(name),
            fields: owned(fields),
        },
        ("list" | "rows", [kind, namespace, fields @ ..]) => Call::List {
            kind: text(kind),
            namespace: text(namespace),
            conditions: Vec::new(),
            projection: match word {
                "rows" => Projection::Columns(owned(fields)),
                _ if fields.is_empty() => Projection::All,
                _ => Projection::Fields(owned(fields)),
            },
        },
        ("count", [kind, namespace]) => Call::Count {
            kind: text(kind),
            namespace: text(namespace),
            conditions: Vec::new(),
        },
        ("live-get", [kind, namespace, name, fields @ ..]) => Call::Live(Read::Get {
            kind: text(kind),
            namespace: text(namespace),
            name: text(name),
            fields: owned(fields),
        }),
        ("live-list", [kind, namespace, fields @ ..]) => Call::Live(Read::List {
            kind: text(kind),
            namespace: text(namespace),
            parameters: Vec::new(),
            fields: owned(fields),
        }),
        ("raw", [path]) => Call::Live(Read::Raw { path: text(path) }),
        ("write", [verb, kind, subresource, namespace, name, returns @ ..]) => Call::Write(Write {
            target: Target {
                kind: text(kind),
                namespace: text(namespace),
                name: text(name),
                subresource: text(subresource),
            },
            operation: operation(verb)?,
            options: Default::default(),
            returns: owned(returns),
        }),
        _ => return None,
    })
}

/// A write that changes nothing: the server answers with the object as it is.
fn operation(verb: &str) -> Option<Operation> {
    let empty = || "{}".into();
    Some(match verb {
        "create" => Operation::Create { object: empty() },
        "update" => Operation::Update {
            resource_version: "10".into(),
            change: empty(),
        },
        "update-status" => Operation::UpdateStatus {
            resource_version: "10".into(),
            status: empty(),
            metadata: empty(),
        },
        "patch" => Operation::Patch {
            patch_type: "merge".into(),
            patch: empty(),
        },
        "delete" => Operation::Delete,
        "deletecollection" => Operation::DeleteCollection {
            label_selector: String::new(),
            field_selector: String::new(),
        },
        _ => return None,
    })
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MAX_LINES {
        list.push(item);
    }
}

fn text(word: &str) -> String {
    if word == "-" { "" } else { word }.to_owned()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn listed(word: &str) -> Vec<String> {
    if word == "-" {
        return Vec::new();
    }
    word.split(',').map(str::to_owned).collect()
}
