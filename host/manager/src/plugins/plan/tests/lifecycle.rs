//! Versions that are opened, start and end.

use super::*;

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
