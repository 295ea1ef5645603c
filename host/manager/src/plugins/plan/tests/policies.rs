//! Tests of the effects of a changed policy.

use super::*;

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
