#include "greeter.h"
#include "testing/fake.h"

static const char *const HELLO =
    "{\"apiVersion\": \"greeter.flyball.dev/v1\", \"kind\": \"Greeting\", \"metadata\": {\"name\": \"hello\", \"namespace\": "
    "\"a\"}, \"spec\": {\"text\": \"Hello, world\"}}";
static const char *const TAKEN =
    "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"hello\", \"namespace\": \"a\"}, \"data\": "
    "{\"b\": \"c\"}}";

static void start(void) {
    fbt_start(&greeter);
    fbt_put(HELLO);
}

/* The writes of the last call of `reconcile`. */
static const char *written;

/* Reconciles until the greeter's own writes don't enqueue the key any more. */
static void reconcile(void) {
    written = "";
    for (const char *lines = "more"; *lines;) {
        FBT_CHECK(fbt_reconcile("a/hello").kind == FB_DONE);
        lines = fbt_written();
        written = fb_format("%s%s%s", written, lines, *lines ? "\n" : "");
    }
}

static cJSON *greeting(void) {
    return fbt_object(GREETING, "a", "hello");
}

static const char *text(void) {
    return fb_text(fbt_object(CONFIG_MAP, "a", "hello"), "data.text");
}

static cJSON *ready(void) {
    return fb_get_condition(fb_at(greeting(), "status.conditions"), "Ready");
}

static void a_greeting_gets_a_config_map_a_finalizer_a_status_and_an_event(void) {
    start();
    reconcile();
    FBT_CHECK_TEXT(written, "update greeter.flyball.dev/v1/Greeting a/hello\n"
                            "create v1/ConfigMap a/hello\n"
                            "update greeter.flyball.dev/v1/Greeting/status a/hello\n");
    FBT_CHECK(fb_has_finalizer(greeting(), FINALIZER));
    FBT_CHECK(fb_number(greeting(), "status.observedGeneration") == 1);
    FBT_CHECK_TEXT(fb_text(ready(), "status"), "True");
    FBT_CHECK_TEXT(fb_text(ready(), "reason"), "Greeted");
    FBT_CHECK_TEXT(text(), "Hello, world");
    FBT_CHECK(fb_is_controlled_by(fbt_object(CONFIG_MAP, "a", "hello"), greeting()));
    FBT_CHECK_TEXT(fbt_events(), "Normal Greeted wrote ConfigMap hello");
}

static void nothing_is_written_twice(void) {
    start();
    reconcile();
    fbt_events();
    reconcile();
    FBT_CHECK_TEXT(written, "");
    FBT_CHECK_TEXT(fbt_events(), "");
}

static void changed_data_is_corrected(void) {
    start();
    reconcile();
    fbt_events();
    fbt_edit(CONFIG_MAP, "a", "hello", "{\"data\": {\"text\": \"Bye\"}}");
    reconcile();
    FBT_CHECK_TEXT(written, "update v1/ConfigMap a/hello\n");
    FBT_CHECK_TEXT(text(), "Hello, world");
    FBT_CHECK_TEXT(fbt_events(), "Normal Greeted wrote ConfigMap hello");
}

static void a_new_generation_is_observed(void) {
    start();
    reconcile();
    fbt_edit(GREETING, "a", "hello", "{\"metadata\": {\"generation\": 2}, \"spec\": {\"text\": \"Good day\"}}");
    reconcile();
    FBT_CHECK(fb_number(greeting(), "status.observedGeneration") == 2);
    FBT_CHECK(fb_number(ready(), "observedGeneration") == 2);
    FBT_CHECK_TEXT(text(), "Good day");
}

static void a_name_that_is_taken_is_reported_once_and_left_alone(void) {
    start();
    fbt_put(TAKEN);
    reconcile();
    FBT_CHECK_TEXT(fb_text(ready(), "status"), "False");
    FBT_CHECK_TEXT(fb_text(ready(), "reason"), "NameTaken");
    FBT_CHECK_TEXT(fbt_events(), "Warning NameTaken ConfigMap hello exists and this Greeting does not control it");
    reconcile();
    FBT_CHECK_TEXT(fbt_events(), "");
    FBT_CHECK_TEXT(fb_text(fbt_object(CONFIG_MAP, "a", "hello"), "data.b"), "c");
    fbt_remove(CONFIG_MAP, "a", "hello");
    reconcile();
    FBT_CHECK_TEXT(fb_text(ready(), "status"), "True");
}

static void a_deleted_greeting_takes_its_config_map_with_it(void) {
    start();
    reconcile();
    fbt_delete(GREETING, "a", "hello");
    reconcile();
    FBT_CHECK_TEXT(written, "delete v1/ConfigMap a/hello\nupdate greeter.flyball.dev/v1/Greeting a/hello\n");
    FBT_CHECK(fbt_object(CONFIG_MAP, "a", "hello") == NULL);
    FBT_CHECK(greeting() == NULL);
}

static void a_deleted_greeting_leaves_a_config_map_of_another_owner(void) {
    start();
    fbt_put(TAKEN);
    reconcile();
    fbt_delete(GREETING, "a", "hello");
    reconcile();
    FBT_CHECK(fbt_object(CONFIG_MAP, "a", "hello") != NULL);
    FBT_CHECK(greeting() == NULL);
}

static void a_conflict_fails_the_reconcile_and_the_next_one_succeeds(void) {
    start();
    fbt_fail("update", GREETING, 409, "Conflict");
    fb_outcome outcome = fbt_reconcile("a/hello");
    fbt_written();
    FBT_CHECK(outcome.kind == FB_FAILED);
    FBT_CHECK_TEXT(outcome.message, "the test refuses this: Conflict (409 Conflict)");
    reconcile();
    FBT_CHECK_TEXT(fb_text(ready(), "status"), "True");
}

static void an_object_that_is_gone_needs_nothing(void) {
    start();
    FBT_CHECK(fbt_reconcile("a/other").kind == FB_DONE);
    FBT_CHECK_TEXT(fbt_written(), "");
}

int main(void) {
    static const fbt_test TESTS[] = {
        FBT_TEST(a_greeting_gets_a_config_map_a_finalizer_a_status_and_an_event),
        FBT_TEST(nothing_is_written_twice),
        FBT_TEST(changed_data_is_corrected),
        FBT_TEST(a_new_generation_is_observed),
        FBT_TEST(a_name_that_is_taken_is_reported_once_and_left_alone),
        FBT_TEST(a_deleted_greeting_takes_its_config_map_with_it),
        FBT_TEST(a_deleted_greeting_leaves_a_config_map_of_another_owner),
        FBT_TEST(a_conflict_fails_the_reconcile_and_the_next_one_succeeds),
        FBT_TEST(an_object_that_is_gone_needs_nothing),
    };
    return fbt_run(TESTS, sizeof TESTS / sizeof *TESTS);
}
