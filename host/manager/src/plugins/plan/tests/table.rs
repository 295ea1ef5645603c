//! The rows of the table, by what changes.

use super::*;

// Files.
rows! {
    a_new_file_is_loaded:
        |world| world.policy(GRANTS),
        |world| world.file("/a.wasm", a("1"))
        => ["load /a.wasm"], ["a 1"];
    a_changed_file_is_loaded_and_takes_over:
        one_runs,
        |world| world.file("/a.wasm", a("2"))
        => ["load /a.wasm"], ["a 2"];
    of_a_half_written_file_the_version_before_goes_on:
        one_runs,
        |world| world.lay("/a.wasm", Err("can't load the plugin /a.wasm".into()))
        => ["load /a.wasm"], ["a 1"];
    a_removed_file_stops_its_plugin:
        one_runs,
        |world| world.remove("/a.wasm")
        => ["forget /a.wasm"], [];
    a_renamed_file_is_no_other_version:
        one_runs,
        |world| {
            world.files.clear();
            world.file("/b.wasm", a("1"));
        }
        => ["forget /a.wasm", "load /b.wasm"], ["a 1"];
    files_of_an_unreadable_folder_go_on_and_the_folder_is_noted:
        one_runs,
        |world| drop(world.unreadable.insert("/".into(), "no such file".into()))
        => ["note Folder(\"/\"): no such file"], ["a 1"];
    of_two_files_with_one_name_the_one_that_runs_stays:
        |world| {
            world.policy(GRANTS);
            world.file("/b.wasm", a("1"));
        },
        |world| {
            world.file("/a.wasm", a("2"));
            world.settle();
            // Another content of the newcomer does not help it.
            world.file("/a.wasm", a("3"));
        }
        => ["load /a.wasm"], ["a 1"];
    of_two_files_with_one_name_the_one_that_ran_last_starts:
        |world| {
            let two = a("2");
            let asks = Asks::of(&two.description);
            let versions = world.state.record.after("a", two.file(), "2", asks);
            world.state.record.set("a", versions);
            world.policy(GRANTS);
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        }
        => ["load /a.wasm", "load /b.wasm"], ["a 2"];
    the_other_of_two_files_takes_over_once_the_first_is_removed:
        |world| {
            world.policy(GRANTS);
            world.file("/a.wasm", a("1"));
            world.file("/b.wasm", a("2"));
        },
        |world| world.remove("/a.wasm")
        => ["forget /a.wasm"], ["a 2"];
    a_plugin_that_controllers_disables_does_not_run:
        |world| {
            one_runs(world);
            world.disabled = "a";
        },
        nothing
        => [], [];
}

// Packages.
const PACKAGE: &str =
    "oci://example.com/a@sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn package(world: &mut World) {
    let source = format!("[plugins.a]\nsource = \"{PACKAGE}\"\n{GRANTS}");
    world.policy(&source);
    world.contents.insert(PACKAGE.into(), Ok(a("1")));
}

rows! {
    a_package_that_the_policy_names_is_pulled:
        nothing, package
        => ["pull oci://example.com/a@sha256:0000"], ["a 1"];
    a_package_that_the_policy_names_no_more_stops:
        package,
        |world| world.policy(GRANTS)
        => ["forget oci://example.com/a@sha256:0000"], [];
    a_package_of_a_disabled_plugin_is_not_pulled:
        |world| {
            package(world);
            world.disabled = "a";
        },
        nothing
        => [], [];
}

// Policies.
rows! {
    without_a_policy_a_plugin_is_pending:
        nothing,
        |world| {
            world.file("/a.wasm", a("1"));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: pending: no policy grants it anything"], [];
    a_pending_plugin_starts_once_it_is_granted:
        |world| world.file("/a.wasm", a("1")),
        |world| world.policy(GRANTS)
        => ["open a 1"], ["a 1"];
    a_plugin_whose_grant_is_revoked_stops:
        one_runs,
        |world| world.policy("")
        => ["stop a", "note a: pending: no policy"], [];
    a_narrowed_grant_is_in_force_at_once:
        one_runs,
        |world| world.policy(&GRANTS.replace(", \"create\"", ""))
        => ["stop a"], ["a 1"];
    a_version_whose_grant_was_narrowed_does_not_go_on_if_it_cannot_be_opened_again:
        one_runs,
        |world| {
            let gone = Trouble::failed("the server does not serve it".into());
            world.held_up.insert("a".into(), gone);
            world.policy(&GRANTS.replace(", \"create\"", ""));
        }
        => ["stop a"], [];
    another_account_is_used_at_once:
        one_runs,
        |world| world.policy(&format!("[plugins.a]\nservice-account = \"demo/b\"\n{GRANTS}"))
        => ["stop a"], ["a 1"];
    a_widened_grant_lets_the_version_go_on_until_it_is_in_force:
        one_runs,
        |world| world.policy(&GRANTS.replace("\"create\"", "\"create\", \"delete\""))
        => ["open a 1"], ["a 1"];
    a_version_that_asks_for_more_waits_while_the_one_before_goes_on:
        one_runs,
        |world| {
            world.file("/a.wasm", plugin("a", "2", r#""create", "delete""#));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: pending: this version asks for more"], ["a 1"];
    a_version_that_waits_starts_once_it_is_granted_more:
        |world| {
            one_runs(world);
            world.settle();
            world.file("/a.wasm", plugin("a", "2", r#""create", "delete""#));
        },
        |world| world.policy(&GRANTS.replace("\"create\"", "\"create\", \"delete\""))
        => ["open a 2"], ["a 2"];
    the_version_before_stops_too_if_the_policy_grants_it_nothing_any_more:
        |world| {
            one_runs(world);
            world.settle();
            world.file("/a.wasm", plugin("a", "2", r#""create", "delete""#));
        },
        |world| world.policy("")
        => ["stop a", "note a: pending: no policy"], [];
    a_policy_for_one_digest_is_for_no_other_file:
        one_runs,
        |world| {
            let digest = "0".repeat(64);
            world.policy(&format!("[plugins.a]\ndigest = \"sha256:{digest}\"\n{GRANTS}"));
        }
        => ["stop a", "note a: pending: the policy for `a` applies only"], [];
    a_policy_that_cannot_be_read_leaves_the_one_before_in_force:
        one_runs,
        |world| world.policy_problem = Some("can't read the policy".into())
        => ["note Policy: can't read the policy"], ["a 1"];
    a_policy_that_is_readable_again_is_noted_no_more:
        |world| {
            one_runs(world);
            world.policy_problem = Some("can't read the policy".into());
        },
        |world| world.policy_problem = None
        => [], ["a 1"];
}

// Built-ins.
rows! {
    a_builtin_runs:
        nothing,
        World::builtin
        => ["open a built-in"], ["a built-in"];
    a_file_with_a_builtins_name_is_refused_and_the_builtin_goes_on:
        |world| {
            world.builtin();
            world.policy(GRANTS);
        },
        |world| {
            world.file("/a.wasm", a("1"));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: "], ["a built-in"];
    a_file_replaces_a_builtin_if_the_policy_says_so:
        |world| {
            world.builtin();
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&format!("[plugins.a]\nreplaces-builtin = true\n{GRANTS}"))
        => ["open a 1"], ["a 1"];
    a_builtin_returns_once_what_replaces_it_is_removed:
        |world| {
            world.builtin();
            world.policy(&format!("[plugins.a]\nreplaces-builtin = true\n{GRANTS}"));
            world.file("/a.wasm", a("1"));
        },
        |world| world.files.clear()
        => ["forget /a.wasm"], ["a built-in"];
}

// Rollback.
rows! {
    a_rollback_loads_the_version_before_while_the_newer_one_goes_on:
        two_ran,
        |world| world.state.record.pin("a", "1", "2")
        => ["load kept 1"], ["a 1"];
    a_version_that_is_kept_and_still_loads_changes_nothing:
        two_ran,
        |world| {
            world.state.record.pin("a", "1", "2");
            let origin = Origin::File("/a.wasm".into());
            world.state.begin(&Action::LoadKept(origin, "1".into()));
        }
        => [], ["a 2"];
    a_version_that_is_lost_leaves_that_of_the_file_running:
        two_ran,
        |world| {
            world.contents.remove("1");
            world.state.record.pin("a", "1", "2");
        }
        => ["load kept 1"], ["a 2"];
    a_rollback_ends_when_the_file_changes:
        rolled_back,
        |world| world.file("/a.wasm", a("3"))
        => ["load /a.wasm"], ["a 3"];
    a_second_rollback_returns_to_the_file:
        rolled_back,
        |world| world.state.record.pin("a", "2", "2")
        => ["open a 2"], ["a 2"];
    a_rollback_outlasts_a_restart:
        |world| {
            rolled_back(world);
            world.settle();
            world.state = State {
                record: world.state.record.clone(),
                ..State::default()
            };
        },
        nothing
        => [], ["a 1"];
}

// Configuration.
fn configured(value: &str) -> String {
    format!("[plugins.a]\nconfig = {{ {value} }}\n{GRANTS}")
}

rows! {
    a_plugin_describes_itself_with_the_operators_configuration_before_it_is_opened:
        nothing,
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
            for action in world.plan().actions {
                world.state.begin(&action);
                world.finish(action);
            }
        }
        => ["describe /a.wasm with x"], ["a 1 x"];
    a_plugin_describes_itself_again_when_its_configuration_changes:
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("key = \"y\""))
        => ["describe /a.wasm with y"], ["a 1 y"];
    a_configuration_that_it_cannot_describe_itself_with_leaves_the_one_before:
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("broken = \"y\""))
        => ["describe /a.wasm with y"], ["a 1 x"];
    a_failed_configuration_is_noted_and_not_tried_again:
        |world| {
            world.policy(&configured("broken = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.state.noted.clear()
        => ["note a: it did not describe itself"], [];
    a_corrected_configuration_is_tried:
        |world| {
            world.policy(&configured("broken = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("key = \"y\""))
        => ["describe /a.wasm with y"], ["a 1 y"];
    what_is_revoked_is_in_force_before_a_new_configuration_is_described:
        |world| {
            world.policy(&configured("key = \"x\""));
            world.file("/a.wasm", a("1"));
        },
        |world| world.policy(&configured("key = \"y\"").replace(", \"create\"", ""))
        => ["describe /a.wasm with y", "stop a"], ["a 1 y"];
    a_file_that_the_policy_is_not_for_is_shown_no_configuration:
        nothing,
        |world| {
            let digest = "0".repeat(64);
            let policy = configured("key = \"x\"");
            let header = format!("[plugins.a]\ndigest = \"sha256:{digest}\"");
            world.policy(&policy.replace("[plugins.a]", &header));
            world.file("/a.wasm", a("1"));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: pending: the policy for"], [];
    an_unsigned_file_does_not_run_in_place_of_the_package_that_the_policy_names:
        |world| {
            one_runs(world);
            world.settle();
            world.contents.insert(PACKAGE.into(), Ok(a("2")));
            world.policy(&format!("[plugins.a]\nsource = \"{PACKAGE}\"\n{GRANTS}"));
            world.files.clear();
        },
        |world| world.state.record.pin("a", "1", "2")
        => [], ["a 2"];
    a_version_that_is_rolled_back_to_describes_itself_with_the_configuration:
        |world| {
            two_ran(world);
            world.settle();
            world.policy(&configured("key = \"x\""));
        },
        |world| world.state.record.pin("a", "1", "2")
        => ["load kept 1"], ["a 1 x"];
}

// Opening, starting, ending.
fn not_served(world: &mut World) {
    let trouble = Trouble {
        reason: "waits until the server serves example.com/v1/Widget".into(),
        state: PluginState::Starting,
    };
    world.held_up.insert("a".into(), trouble);
}

rows! {
    a_version_that_is_held_up_is_noted_and_the_one_before_goes_on:
        |world| {
            one_runs(world);
            world.settle();
            not_served(world);
            world.file("/a.wasm", a("2"));
        },
        |world| world.state.noted.clear()
        => ["note a: waits until the server serves"], ["a 1"];
    a_version_that_is_held_up_no_more_takes_over:
        |world| {
            one_runs(world);
            world.settle();
            not_served(world);
            world.file("/a.wasm", a("2"));
        },
        |world| world.slot().next.as_mut().expect("a next version").progress = Progress::Ready
        => ["start a"], ["a 2"];
    a_cause_that_changes_is_not_noted_anew:
        |world| {
            one_runs(world);
            let trouble = Trouble {
                reason: "the API server can't be asked what it serves: refused".into(),
                state: PluginState::Starting,
            };
            world.held_up.insert("a".into(), trouble);
        },
        |world| {
            let trouble = Trouble {
                reason: "the API server can't be asked what it serves: timed out".into(),
                state: PluginState::Starting,
            };
            let next = world.slot().next.as_mut().expect("a next version");
            next.progress = Progress::HeldUp(trouble);
        }
        => [], [];
    a_version_that_is_no_longer_wanted_is_abandoned:
        |world| {
            one_runs(world);
            world.settle();
            not_served(world);
            world.file("/a.wasm", a("2"));
        },
        |world| {
            world.file("/a.wasm", a("1"));
            let actions = plan_and_load(world);
            actions.into_iter().for_each(|action| world.state.begin(&action));
        }
        => [], ["a 1"];
    a_version_that_is_held_up_makes_way_for_a_newer_one:
        |world| {
            one_runs(world);
            world.settle();
            not_served(world);
            world.file("/a.wasm", a("2"));
        },
        |world| {
            world.held_up.clear();
            world.file("/a.wasm", a("3"));
            plan_and_load(world);
        }
        => ["open a 3"], ["a 3"];
    a_plugin_whose_account_may_no_longer_read_stops_and_is_opened_anew:
        one_runs,
        |world| world.slot().denied = Some("it may not list v1/Pod".into())
        => ["stop a: it may not list v1/Pod"], ["a 1"];
    a_plugin_that_ends_comes_back_once_it_has_ended:
        |world| {
            one_runs(world);
            world.settle();
            let stop = Action::Stop("a".into(), None);
            world.state.begin(&stop);
        },
        |world| drop(world.state.slots.remove("a"))
        => ["open a 1"], ["a 1"];
    while_a_plugin_ends_nothing_starts_in_its_place:
        |world| {
            one_runs(world);
            world.settle();
            let stop = Action::Stop("a".into(), None);
            world.state.begin(&stop);
        },
        |world| world.file("/a.wasm", a("2"))
        => ["load /a.wasm"], [];
    what_runs_as_wanted_is_left_alone:
        one_runs, nothing => [], ["a 1"];
}

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
    let source = world.state.sources.get_mut(Path::new("/a.wasm"));
    source.expect("a source").loaded(Ok(a("1")));
    assert!(!waits(&world), "the other one is loading");
    world.grants.trust = true;
    assert!(waits(&world), "all plugins are trusted");
    let renamed = world.state.sources.get_mut(Path::new("/other.wasm"));
    renamed.expect("a source").plugin = Some(a("2"));
    world.grants.trust = false;
    let is_expected = |path: &str| world.state.is_expected(Path::new(path), &world.grants);
    assert!(is_expected("/other.wasm"), "it held the plugin `a` before");
}
