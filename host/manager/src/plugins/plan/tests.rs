//! The supervisor's decisions, as a table: the initial state, the event, the plan, and the plugins that run in the end.

use std::path::Path;
use std::sync::Arc;

use flyball_policy::Policy;
use flyball_policy::grant::Asks;
use flyball_types::description::Description;

use super::*;
use crate::plugins::load::{LoadedPlugin, Origin};
use crate::plugins::status::PluginState;

/// The inputs of the supervisor, and the results of its actions.
struct World {
    state: CurrentState,
    files: BTreeMap<PathBuf, Stamp>,
    unreadable: BTreeMap<PathBuf, String>,
    grants: Grants,
    policy_problem: Option<String>,
    disabled: &'static str,
    /// The content of files, packages and stored versions, by path, address or digest: a plugin, or the reason why it
    /// can't be loaded.
    contents: BTreeMap<String, Result<LoadedPlugin, String>>,
    /// Why a version can't be opened, by name.
    held_up: BTreeMap<String, Trouble>,
}

/// One row of the table.
struct Row {
    /// The initial state. It is run to a fixed point before `when`.
    given: fn(&mut World),
    /// Changes the state.
    when: fn(&mut World),
    /// The actions of the next plan.
    plans: &'static [&'static str],
    /// The plugins that run at the end: name, digest and configuration.
    runs: &'static [&'static str],
}

/// The address of a package.
const PACKAGE: &str =
    "oci://example.com/a@sha256:0000000000000000000000000000000000000000000000000000000000000000";

const GRANTS: &str = "[[plugins.a.allow]]\nkinds = [\"v1/Pod\"]\nverbs = [\"watch\", \"create\"]\n";

fn plugin(name: &str, digest: &str, verbs: &str) -> LoadedPlugin {
    let text = format!(
        r#"{{"format": 1, "name": "{name}", "queues": [{{"name": "{name}"}}],
             "watches": [{{"kind": "v1/Pod", "fields": ["metadata.labels"]}}],
             "permissions": [{{"kind": "v1/Pod", "verbs": [{verbs}]}}]}}"#
    );
    let description = Description::read(&text).expect("a description");
    LoadedPlugin {
        origin: Origin::File("/plugins/unknown.wasm".into()),
        digest: digest.into(),
        asks: Arc::new(Asks::of(&description)),
        description: Arc::new(description),
        config: BTreeMap::new(),
    }
}

fn a(digest: &str) -> LoadedPlugin {
    plugin("a", digest, r#""create""#)
}

impl World {
    fn new() -> Self {
        Self {
            state: CurrentState::default(),
            files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            grants: Grants::default(),
            policy_problem: None,
            disabled: "",
            contents: BTreeMap::new(),
            held_up: BTreeMap::new(),
        }
    }

    fn policy(&mut self, text: &str) {
        let path = Path::new("policy.toml");
        self.grants.plugins = Policy::parse(path, text).expect("a policy");
    }

    /// Writes a file, or gives it other content.
    fn file(&mut self, path: &str, holds: LoadedPlugin) {
        self.lay(path, Ok(holds));
    }

    fn lay(&mut self, path: &str, holds: Result<LoadedPlugin, String>) {
        let stamps = self.files.values().len() as u64 + self.contents.len() as u64;
        let stamp =
            Stamp::numbered(stamps * 2 + u64::from(self.files.contains_key(Path::new(path))));
        self.files.insert(path.into(), stamp);
        if let Ok(plugin) = &holds {
            self.contents.insert(plugin.digest.clone(), holds.clone());
        }
        self.contents.insert(path.into(), holds);
    }

    fn remove(&mut self, path: &str) {
        self.files.remove(Path::new(path));
    }

    fn builtin(&mut self) {
        let origin = Origin::BuiltIn("a");
        self.state.builtins.push(LoadedPlugin {
            origin,
            ..a("built-in")
        });
        self.grants.builtin_names.insert("a".into());
    }

    fn plan(&self) -> Plan {
        let inputs = Inputs {
            files: &self.files,
            unreadable: &self.unreadable,
            grants: &self.grants,
            policy_problem: self.policy_problem.as_deref(),
            enabled: &|name| name != self.disabled,
        };
        plan(&self.state, &inputs)
    }

    /// Carries out actions like the supervisor, and all actions that follow from them.
    fn settle(&mut self) {
        for _ in 0..20 {
            let actions = self.plan().actions;
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.state.begin(&action);
                self.finish(action);
            }
        }
        panic!("there is always something to do: {:?}", self.plan().actions);
    }

    /// Stores the result of an action.
    fn finish(&mut self, action: Action) {
        match action {
            Action::Load(path, _) => {
                let text = path.display().to_string();
                self.load(&SourceKey::File(path.clone()), Origin::File(path), &text);
            }
            Action::Pull(package) => {
                let key = SourceKey::Package(package.plugin);
                let text = package.source.clone();
                self.load(&key, Origin::Package(package.source), &text);
            }
            Action::LoadKept(origin, digest) => {
                let held = self.contents.get(&digest).cloned();
                let loaded = held.unwrap_or_else(|| Err("it is lost".into()));
                let loaded = loaded.map(|kept| LoadedPlugin { origin, ..kept });
                let kept = self.state.kept.get_mut(&digest).expect("a kept version");
                kept.loaded(loaded);
            }
            Action::Describe(key, config) => {
                let source = self.state.source(&key).expect("a source");
                let plugin = source.plugin.clone().expect("a plugin");
                let loaded = match config.contains_key("broken") {
                    true => Err("it did not describe itself".to_owned()),
                    false => Ok(LoadedPlugin { config, ..plugin }),
                };
                source.loaded(loaded);
            }
            Action::Open(name, _) => {
                let progress = match self.held_up.get(&name) {
                    Some(trouble) => Progress::HeldUp(trouble.clone()),
                    None => Progress::Ready,
                };
                let slot = self.state.slots.get_mut(&name).expect("a slot");
                slot.next.as_mut().expect("a next version").progress = progress;
            }
            // It has drained.
            Action::Stop(name, _) => drop(self.state.slots.remove(&name)),
            _ => {}
        }
    }

    /// Stores the content of a file or a package as loaded.
    fn load(&mut self, key: &SourceKey, origin: Origin, at: &str) {
        let held = self.contents[at].clone();
        let loaded = held.map(|plugin| LoadedPlugin { origin, ..plugin });
        self.state.source(key).expect("a source").loaded(loaded);
    }

    fn runs(&self) -> Vec<String> {
        let running = self.state.slots.iter();
        let running = running.filter_map(|(name, slot)| Some((name, slot.running.as_ref()?)));
        let text = running.map(|(name, version)| {
            let config: String = version.plugin.config.values().cloned().collect();
            format!("{name} {} {config}", version.plugin.digest)
        });
        text.map(|text| text.trim_end().to_owned()).collect()
    }

    fn slot(&mut self) -> &mut Slot {
        self.state.slots.get_mut("a").expect("the plugin's slot")
    }
}

/// Describes an action in a few words. Records of versions and notes that report no trouble are left out.
fn words(action: &Action) -> Option<String> {
    Some(match action {
        Action::Load(path, _) => format!("load {}", path.display()),
        Action::Pull(package) => format!("pull {}", package.source),
        Action::LoadKept(_, digest) => format!("load kept {digest}"),
        Action::Describe(SourceKey::Kept(digest), _) => format!("describe kept {digest}"),
        Action::Describe(key, config) => {
            let config: Vec<&str> = config.values().map(String::as_str).collect();
            format!("describe {} with {}", name_of(key), config.join(","))
        }
        Action::Forget(key) => format!("forget {}", name_of(key)),
        Action::Open(name, version) => format!("open {name} {}", version.plugin.digest),
        Action::Abandon(name) => format!("abandon {name}"),
        Action::Start(name) => format!("start {name}"),
        Action::Stop(name, None) => format!("stop {name}"),
        Action::Stop(name, Some(reason)) => format!("stop {name}: {reason}"),
        Action::Note(Subject::Plugin(name), Some(trouble)) => {
            format!("note {name}: {}", trouble.reason)
        }
        Action::Note(subject, Some(trouble)) => format!("note {subject:?}: {}", trouble.reason),
        Action::Unnote(subject) => format!("unnote {subject:?}"),
        Action::Note(_, None) | Action::Record(..) => return None,
    })
}

/// The path of a file, or the name of the plugin of a package.
fn name_of(key: &SourceKey) -> String {
    match key {
        SourceKey::File(path) => path.display().to_string(),
        SourceKey::Package(name) | SourceKey::Kept(name) => name.clone(),
    }
}

fn nothing(_: &mut World) {}

/// A granted plugin runs from /a.wasm.
fn one_runs(world: &mut World) {
    world.policy(GRANTS);
    world.file("/a.wasm", a("1"));
}

/// The file changed since the plugin first ran, and the new version runs.
fn two_ran(world: &mut World) {
    one_runs(world);
    world.settle();
    world.file("/a.wasm", a("2"));
}

fn rolled_back(world: &mut World) {
    two_ran(world);
    world.settle();
    world.state.record.pin("a", "1", "2");
}

/// Checks that each planned action begins with the words that the row says.
fn check(name: &str, row: &Row) {
    let mut world = World::new();
    (row.given)(&mut world);
    world.settle();
    (row.when)(&mut world);
    let planned: Vec<String> = world.plan().actions.iter().filter_map(words).collect();
    let matches = planned.len() == row.plans.len()
        && planned
            .iter()
            .zip(row.plans)
            .all(|(planned, expected)| planned.starts_with(expected));
    assert!(
        matches,
        "{name}: planned {planned:#?}, expected {:#?}",
        row.plans
    );
    world.settle();
    assert_eq!(
        world.runs(),
        row.runs,
        "{name}: the plugins that run in the end"
    );
}

macro_rules! rows {
    ($($name:ident: $given:expr, $when:expr => [$($plans:expr),*], [$($runs:expr),*];)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), &Row {
                given: $given,
                when: $when,
                plans: &[$($plans),*],
                runs: &[$($runs),*],
            });
        })*
    };
}

mod built_ins;
mod configuration;
mod files;
mod lifecycle;
mod packages;
mod policies;
mod rollback;

/// Carries out one plan's loads alone.
fn plan_and_load(world: &mut World) -> Vec<Action> {
    for action in world.plan().actions {
        world.state.begin(&action);
        world.finish(action);
    }
    world.plan().actions
}

#[test]
fn a_plugin_whose_file_is_forgotten_stops() {
    let mut world = World::new();
    one_runs(&mut world);
    world.settle();
    world.files.clear();
    let forget = world.plan().actions;
    forget.iter().for_each(|action| world.state.begin(action));
    let planned: Vec<String> = world.plan().actions.iter().filter_map(words).collect();
    assert_eq!(planned, ["stop a"]);
}

#[test]
fn the_refusal_of_the_second_of_two_files_names_both() {
    let mut world = World::new();
    world.policy(GRANTS);
    world.file("/a.wasm", a("1"));
    world.file("/b.wasm", a("2"));
    world.settle();
    let reason = &world.plan().troubles["a"].reason;
    assert!(
        reason.contains("/a.wasm") && reason.contains("/b.wasm"),
        "{reason}"
    );
    assert_eq!(world.plan().troubles["a"].state, PluginState::Failed);
}

#[test]
fn a_plugin_awaits_files_that_may_have_its_name_unless_they_take_long() {
    let mut world = World::new();
    world.policy(GRANTS);
    world.file("/0.wasm", a("1"));
    world.file("/a.wasm", plugin("other", "2", r#""create""#));
    world.file("/b.wasm", plugin("other", "3", r#""create""#));
    for action in world.plan().actions {
        world.state.begin(&action);
    }
    let file = |path: &str| SourceKey::File(path.into());
    let first = world.state.source(&file("/0.wasm")).expect("a source");
    first.loaded(Ok(LoadedPlugin {
        origin: Origin::File("/0.wasm".into()),
        ..a("1")
    }));
    let opens = |world: &World| {
        let actions = world.plan().actions;
        actions
            .iter()
            .any(|action| matches!(action, Action::Open(..)))
    };
    assert!(!opens(&world), "the others are loading");
    for path in ["/a.wasm", "/b.wasm"] {
        world.state.source(&file(path)).expect("a source").is_slow = true;
    }
    assert!(!opens(&world), "one of them has the name `a`");
    let reason = &world.plan().troubles["a"].reason;
    for part in ["waits until /a.wasm is loaded", "`file = \"0.wasm\"`"] {
        assert!(reason.contains(part), "{reason}");
    }
    let named = world.state.source(&file("/a.wasm")).expect("a source");
    named.loaded(Err("it can't be loaded".into()));
    assert!(opens(&world), "the other one takes long");
}

#[test]
fn nobody_gets_the_configuration_of_a_name_that_two_files_claim() {
    let mut world = World::new();
    world.policy(&format!("{GRANTS}[plugins.a.config]\ntoken = \"secret\"\n"));
    world.file("/a.wasm", a("1"));
    world.file("/b.wasm", a("2"));
    plan_and_load(&mut world);
    let plan = world.plan();
    let describes = |action: &Action| matches!(action, Action::Describe(..));
    assert!(!plan.actions.iter().any(describes), "{:?}", plan.actions);
    let reason = &plan.troubles["a"].reason;
    for part in [
        "none of them runs",
        "`file = \"a.wasm\"`",
        "`digest = \"sha256:1\"`",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn both_files_are_named_if_neither_is_granted_anything() {
    let mut world = World::new();
    world.file("/a.wasm", a("1"));
    world.file("/b.wasm", a("2"));
    world.settle();
    let reason = &world.plan().troubles["a"].reason;
    for part in [
        "no policy grants it anything",
        "/a.wasm and /b.wasm both hold",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn any_number_of_files_with_one_name_makes_a_short_reason() {
    type Given = fn(&mut World);
    let cases: [(&str, Given); 3] = [
        ("neither is granted anything", nothing),
        ("neither runs", |world| world.policy(GRANTS)),
        ("one runs", |world| {
            one_runs(world);
            world.settle();
        }),
    ];
    for (name, given) in cases {
        let mut world = World::new();
        given(&mut world);
        for number in 0..500 {
            let path = format!("/plugins/{number}-{}.wasm", "n".repeat(200));
            world.file(&path, a(&number.to_string()));
        }
        world.settle();
        let reason = &world.plan().troubles["a"].reason;
        assert!(reason.len() < 8192, "{name}: {} bytes", reason.len());
        assert!(reason.contains(" more"), "{name}: {reason}");
    }
}

#[test]
fn a_version_that_ran_is_recorded_with_the_one_before() {
    let mut world = World::new();
    two_ran(&mut world);
    world.settle();
    let versions = world.state.record.of("a").expect("a record");
    assert_eq!(
        (versions.current.as_str(), versions.previous.as_deref()),
        ("2", Some("1"))
    );
}

#[test]
fn code_is_forgotten_once_nothing_names_it() {
    let mut world = World::new();
    two_ran(&mut world);
    world.settle();
    assert_eq!(world.state.digests(), BTreeSet::from(["2"]));
    world.files.clear();
    world.settle();
    assert!(world.state.digests().is_empty());
}

#[test]
fn the_start_waits_for_no_file_but_those_of_plugins_that_the_policy_names() {
    let mut world = World::new();
    world.file("/a.wasm", a("1"));
    world.file("/other.wasm", plugin("other", "2", r#""create""#));
    for action in world.plan().actions {
        world.state.begin(&action);
    }
    let waits = |world: &World| lacks_expected(&world.state, &world.grants);
    assert!(!waits(&world), "nothing is granted");
    world.policy(GRANTS);
    assert!(waits(&world));
    let is_expected = |path: &str| world.state.is_expected(Path::new(path), &world.grants);
    assert!(is_expected("/a.wasm") && !is_expected("/other.wasm"));
    let file = |path: &str| SourceKey::File(path.into());
    let source = world.state.source(&file("/a.wasm"));
    source.expect("a source").loaded(Ok(a("1")));
    assert!(!waits(&world), "the other one is loading");
    world.grants.trust = true;
    assert!(waits(&world), "all plugins are trusted");
    let renamed = world.state.source(&file("/other.wasm"));
    renamed.expect("a source").plugin = Some(a("2"));
    world.grants.trust = false;
    let is_expected = |path: &str| world.state.is_expected(Path::new(path), &world.grants);
    assert!(is_expected("/other.wasm"), "it held the plugin `a` before");
}
