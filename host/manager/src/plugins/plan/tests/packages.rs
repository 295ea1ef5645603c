//! Packages of a registry: whatever happens to one, nothing stops before another is ready.

use super::*;

fn address(digit: &str) -> String {
    format!("oci://example.com/a@sha256:{}", digit.repeat(64))
}

/// The policy names a package.
fn names(world: &mut World, address: &str, more: &str) {
    world.policy(&format!(
        "[plugins.a]\nsource = \"{address}\"\n{more}{GRANTS}"
    ));
}

/// The policy names a package, which holds a plugin or can't be loaded.
fn package(world: &mut World, digit: &str, holds: Result<LoadedPlugin, String>) {
    let address = address(digit);
    if let Ok(plugin) = &holds {
        world.contents.insert(plugin.digest.clone(), holds.clone());
    }
    world.contents.insert(address.clone(), holds);
    names(world, &address, "");
}

/// A package runs.
fn one(world: &mut World) {
    package(world, "1", Ok(a("1")));
}

fn fails(world: &mut World) {
    package(world, "2", Err("can't pull it".into()));
}

/// The next package runs after the first one.
fn two(world: &mut World) {
    one(world);
    world.settle();
    package(world, "2", Ok(a("2")));
}

/// The operator rolled back to the first package while the policy names the second.
fn back(world: &mut World) {
    two(world);
    world.settle();
    world.state.record.pin("a", "1", "2");
}

rows! {
    a_package_that_the_policy_names_is_pulled:
        nothing, one
        => ["pull oci://example.com/a@sha256:1111"], ["a 1"];
    a_package_that_the_policy_names_no_more_stops:
        one,
        |world| world.policy(GRANTS)
        => ["forget a"], [];
    a_package_of_a_disabled_plugin_is_not_pulled:
        |world| {
            one(world);
            world.disabled = "a";
        },
        nothing
        => [], [];
    the_next_package_takes_over_when_it_is_loaded:
        one,
        |world| package(world, "2", Ok(a("2")))
        => ["pull oci://example.com/a@sha256:2222"], ["a 2"];
    a_package_that_cannot_be_loaded_leaves_the_one_before_running:
        one,
        fails
        => ["pull oci://example.com/a@sha256:2222"], ["a 1"];
    a_package_that_is_put_right_takes_over:
        |world| {
            one(world);
            world.settle();
            fails(world);
        },
        |world| {
            let key = SourceKey::Package("a".into());
            let origin = Origin::Package(address("2"));
            let loaded = LoadedPlugin { origin, ..a("2") };
            world.state.source(&key).expect("a source").loaded(Ok(loaded));
        }
        => ["open a 2"], ["a 2"];
    a_package_that_asks_for_more_leaves_the_one_before_running:
        one,
        |world| {
            package(world, "2", Ok(plugin("a", "2", r#""create", "delete""#)));
            world.settle();
            world.state.noted.clear();
        }
        => ["note a: pending: this version asks for more"], ["a 1"];
    a_package_whose_account_may_not_read_leaves_the_one_before_running:
        one,
        |world| {
            let denied = Trouble::failed("its account may not".into());
            world.held_up.insert("a".into(), denied);
            package(world, "2", Ok(a("2")));
        }
        => ["pull oci://example.com/a@sha256:2222"], ["a 1"];
    a_package_that_another_key_must_have_signed_goes_on_until_that_is_checked:
        one,
        |world| {
            names(world, &address("1"), "signed-by = \"key.pem\"\n");
            world.contents.insert(address("1"), Err("it is not signed with the key".into()));
        }
        => ["pull oci://example.com/a@sha256:1111"], ["a 1"];
    a_package_that_was_pending_does_not_start_under_a_key_that_did_not_sign_it:
        |world| {
            one(world);
            let held_up = Trouble::failed("its account may not".into());
            world.held_up.insert("a".into(), held_up);
            world.settle();
        },
        |world| {
            world.held_up.clear();
            names(world, &address("1"), "signed-by = \"key.pem\"\n");
            world.contents.insert(address("1"), Err("it is not signed with the key".into()));
        }
        => ["pull oci://example.com/a@sha256:1111", "stop a"], [];
    the_one_before_stops_if_the_policy_grants_less_together_with_another_package:
        one,
        |world| {
            fails(world);
            let text = format!("[plugins.a]\nsource = \"{}\"\n{GRANTS}", address("2"));
            world.policy(&text.replace(", \"create\"", ""));
        }
        => ["pull oci://example.com/a@sha256:2222", "stop a"], [];
    the_one_before_gets_nothing_of_what_the_next_package_is_granted:
        one,
        |world| {
            fails(world);
            let text = format!("[plugins.a]\nsource = \"{}\"\n{GRANTS}", address("2"));
            world.policy(&text.replace("\"create\"", "\"create\", \"delete\""));
        }
        => ["pull oci://example.com/a@sha256:2222"], ["a 1"];
    a_file_goes_on_until_the_package_in_its_place_is_loaded:
        one_runs,
        fails
        => ["pull oci://example.com/a@sha256:2222", "note a: pending: the policy for `a` applies only to"], ["a 1"];
    a_package_takes_the_place_of_a_file_that_stays_in_the_folder:
        one_runs,
        |world| package(world, "2", Ok(a("2")))
        => ["pull oci://example.com/a@sha256:2222", "note a: pending: the policy for `a` applies only to"], ["a 2"];
    a_file_is_not_accepted_under_the_name_of_a_package:
        one,
        |world| world.file("/a.wasm", a("3"))
        => ["load /a.wasm"], ["a 1"];
    a_rollback_returns_to_the_package_before:
        two,
        |world| world.state.record.pin("a", "1", "2")
        => ["load kept 1"], ["a 1"];
    a_rollback_ends_when_the_policy_names_another_package:
        back,
        |world| package(world, "3", Ok(a("3")))
        => ["pull oci://example.com/a@sha256:3333", "open a 1"], ["a 3"];
    a_rollback_goes_on_while_the_next_package_cannot_be_loaded:
        back,
        |world| package(world, "3", Err("can't pull it".into()))
        => ["pull oci://example.com/a@sha256:3333", "open a 1"], ["a 1"];
    a_rollback_is_possible_while_the_next_package_cannot_be_loaded:
        |world| {
            two(world);
            world.settle();
            package(world, "3", Err("can't pull it".into()));
        },
        |world| world.state.record.pin("a", "1", "2")
        => ["load kept 1"], ["a 1"];
}

#[test]
fn a_version_that_goes_on_keeps_its_grant() {
    let mut world = World::new();
    one(&mut world);
    world.settle();
    let grant = world.slot().running.clone().expect("it runs").grant;
    fails(&mut world);
    let policy = format!("[plugins.a]\nsource = \"{}\"\n{GRANTS}", address("2"));
    world.policy(&policy.replace("\"create\"", "\"create\", \"delete\""));
    world.settle();
    assert_eq!(world.slot().running.clone().expect("it runs").grant, grant);
    assert_eq!(world.plan().troubles["a"].reason, "can't pull it");
}

#[test]
fn a_package_that_was_never_loaded_is_a_problem_of_its_plugin() {
    let mut world = World::new();
    fails(&mut world);
    world.settle();
    assert_eq!(world.plan().troubles["a"].reason, "can't pull it");
}
