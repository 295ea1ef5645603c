/* Tests of the SDK itself: `make` in the folder of the SDK. */
#include "flyball.h"
#include "testing/fake.h"

#include <stdio.h>
#include <string.h>

#define CONFIG_MAP "v1/ConfigMap"

static const char *const A =
    "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\", \"namespace\": \"n\", \"labels\": "
    "{\"app\": \"web\"}, \"finalizers\": [\"x.io/other\"]}, \"data\": {\"x\": \"1\"}}";

static cJSON *describe(void) {
    cJSON *description = fb_describe("strict", "1.0.0");
    fb_add_queue(description, "slow");
    cJSON *mapping = fb_enqueue(fb_watch(description, CONFIG_MAP, "metadata", "data", NULL), fb_selecting(CONFIG_MAP, "data.selector"));
    fb_set_text(mapping, "queue", "slow");
    fb_permission(description, CONFIG_MAP, "", "create", NULL);
    fb_permission(description, CONFIG_MAP, "status", "update", "patch", NULL);
    fb_add_index(description, "by-x", CONFIG_MAP, "data.x");
    fb_add_ticker(description, "all", 60000);
    fb_add_config(description, "size", "7", "How many.");
    fb_add_metric(description, "counter", "done_total", "Reconciles.", "how", NULL);
    fb_import(description, "signer");
    return description;
}

static fb_outcome reconcile(const fb_request *request) {
    if (request->attempt > 0)
        return fb_terminal("too often");
    return fb_requeue_after(1500);
}

static const char *route(const fb_delta *deltas, size_t count) {
    for (size_t i = 0; i < count; i++)
        fb_route_to((fb_routed_key){.queue = "slow", .key = fb_text(deltas[i].after, "metadata.name"), .delay_ms = 5});
    return NULL;
}

static const fb_controller strict = {.describe = describe, .reconcile = reconcile, .route = route};

static cJSON *read_a(void) {
    return fbt_object(CONFIG_MAP, "n", "a");
}

static void a_description_is_the_hosts_document(void) {
    fbt_start(NULL);
    FBT_CHECK_TEXT(fb_print(describe()),
                   "{\"format\":1,\"name\":\"strict\",\"version\":\"1.0.0\",\"queues\":[{\"name\":\"strict\"},{\"name\":\"slow\"}],"
                   "\"watches\":[{\"kind\":\"v1/ConfigMap\",\"fields\":[\"metadata\",\"data\"],\"map\":[{\"to\":\"selecting\",\"kind\":"
                   "\"v1/ConfigMap\",\"path\":\"data.selector\",\"queue\":\"slow\"}]}],"
                   "\"permissions\":[{\"kind\":\"v1/ConfigMap\",\"verbs\":[\"create\"]},"
                   "{\"kind\":\"v1/ConfigMap\",\"subresource\":\"status\",\"verbs\":[\"update\",\"patch\"]}],"
                   "\"indexes\":[{\"name\":\"by-x\",\"kind\":\"v1/ConfigMap\",\"path\":\"data.x\"}],"
                   "\"tickers\":[{\"key\":\"all\",\"periodMs\":60000}],"
                   "\"config\":{\"size\":{\"help\":\"How many.\",\"default\":\"7\"}},"
                   "\"metrics\":[{\"type\":\"counter\",\"name\":\"done_total\",\"help\":\"Reconciles.\",\"labels\":[\"how\"]}],"
                   "\"imports\":[\"signer\"]}");
}

static void keys_and_times_are_written_as_the_api_writes_them(void) {
    fbt_start(NULL);
    FBT_CHECK_TEXT(fb_key_text(fb_key_parse("a/b")), "a/b");
    FBT_CHECK_TEXT(fb_key_parse("b").ns, "");
    FBT_CHECK_TEXT(fb_rfc3339((fb_time){0, 0}), "1970-01-01T00:00:00Z");
    FBT_CHECK_TEXT(fb_rfc3339((fb_time){951782399, 0}), "2000-02-28T23:59:59Z");
    FBT_CHECK_TEXT(fb_rfc3339((fb_time){951782400, 0}), "2000-02-29T00:00:00Z");
    FBT_CHECK_TEXT(fb_rfc3339((fb_time){4102444799u, 0}), "2099-12-31T23:59:59Z");
}

static void values_are_found_and_set_at_paths(void) {
    fbt_start(NULL);
    cJSON *object = fb_parse("{\"a\": {\"b\": 3, \"c\": true, \"bb\": \"x\"}}");
    FBT_CHECK(fb_number(object, "a.b") == 3 && fb_flag(object, "a.c"));
    FBT_CHECK_TEXT(fb_text(object, "a.bb"), "x");
    FBT_CHECK_TEXT(fb_text(object, "a.b"), "");
    FBT_CHECK(fb_at(object, "a.b.c") == NULL && fb_at(NULL, "a") == NULL);
    fb_set_text(object, "a.d.e", "y");
    fb_set(object, "a.b", cJSON_CreateNull());
    FBT_CHECK_TEXT(fb_print(object), "{\"a\":{\"c\":true,\"bb\":\"x\",\"d\":{\"e\":\"y\"},\"b\":null}}");
}

static void the_transition_time_moves_only_with_the_status(void) {
    fbt_start(NULL);
    cJSON *all = cJSON_CreateArray();
    fb_condition ready = {.type = "Ready", .status = "False", .reason = "Starting", .observed_generation = 1};
    FBT_CHECK(fb_set_condition(all, ready));
    fbt_set_now((fb_time){1893456000, 0});
    FBT_CHECK(!fb_set_condition(all, ready));
    ready.reason = "Waiting";
    FBT_CHECK(fb_set_condition(all, ready));
    FBT_CHECK_TEXT(fb_text(fb_get_condition(all, "Ready"), "lastTransitionTime"), "2026-01-01T00:00:00Z");
    ready.status = "True";
    FBT_CHECK(fb_set_condition(all, ready));
    FBT_CHECK_TEXT(fb_text(fb_get_condition(all, "Ready"), "lastTransitionTime"), "2030-01-01T00:00:00Z");
    FBT_CHECK(cJSON_GetArraySize(all) == 1);
}

static void a_finalizer_is_added_last_and_removed_alone(void) {
    fbt_start(NULL);
    fbt_put(A);
    FBT_CHECK(fb_run(fb_add_finalizer(CONFIG_MAP, read_a(), "x.io/ours"), NULL) == NULL);
    FBT_CHECK_TEXT(fb_print(fb_at(read_a(), "metadata.finalizers")), "[\"x.io/other\",\"x.io/ours\"]");
    FBT_CHECK(fb_run(fb_remove_finalizer(CONFIG_MAP, read_a(), "x.io/other"), NULL) == NULL);
    fbt_delete(CONFIG_MAP, "n", "a");
    FBT_CHECK(fb_is_deleting(read_a()) && fb_has_finalizer(read_a(), "x.io/ours"));
    fb_run(fb_remove_finalizer(CONFIG_MAP, read_a(), "x.io/ours"), NULL);
    FBT_CHECK(read_a() == NULL);
}

static void writes_fail_as_the_api_server_refuses_them(void) {
    fbt_start(NULL);
    fbt_put(A);
    cJSON *stale = read_a();
    FBT_CHECK(fb_run(fb_update(CONFIG_MAP, stale, fb_parse("{\"data\": {\"x\": null, \"y\": \"2\"}}")), NULL) == NULL);
    FBT_CHECK_TEXT(fb_print(fb_at(read_a(), "data")), "{\"y\":\"2\"}");
    FBT_CHECK(fb_is_conflict(fb_run(fb_update(CONFIG_MAP, stale, fb_parse("{\"data\": {}}")), NULL)));
    FBT_CHECK(fb_is_already_exists(fb_run(fb_create(CONFIG_MAP, "n", stale), NULL)));
    FBT_CHECK(fb_is_not_found(fb_run(fb_delete_name(CONFIG_MAP, (fb_key){"n", "b"}), NULL)));
    fb_set_text(stale, "metadata.uid", "other");
    FBT_CHECK(fb_is_conflict(fb_run(fb_delete(CONFIG_MAP, stale), NULL)));
    cJSON *patch = fb_parse("[{\"op\": \"add\", \"path\": \"/data/z\", \"value\": \"3\"}]");
    FBT_CHECK(fb_run(fb_patch(CONFIG_MAP, (fb_key){"n", "a"}, "json", patch), NULL) == NULL);
    FBT_CHECK_TEXT(fb_text(read_a(), "data.z"), "3");
    cJSON *applied = fb_parse("{\"metadata\": {\"name\": \"c\", \"namespace\": \"n\"}}"), *answer;
    fb_write write = fb_apply(CONFIG_MAP, applied, "me", false);
    write.returns = (const char *const[]){"metadata", NULL};
    FBT_CHECK(fb_run(write, &answer) == NULL);
    FBT_CHECK_TEXT(fb_text(answer, "metadata.name"), "c");
}

static void a_batch_stops_after_an_error(void) {
    fbt_start(NULL);
    fb_write writes[4];
    fb_result results[4];
    fbt_put("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"c1\", \"namespace\": \"n\"}}");
    for (int i = 0; i < 4; i++) {
        cJSON *object = cJSON_CreateObject();
        fb_set_text(object, "metadata.name", fb_format("c%d", i));
        writes[i] = fb_create(CONFIG_MAP, "n", object);
    }
    fb_run_writes(writes, 4, 1, false, results);
    FBT_CHECK(results[0].error == NULL && fb_is_already_exists(results[1].error));
    FBT_CHECK(results[2].error == NULL && fb_is(results[3].error, "Skipped"));
}

static void only_permitted_writes_are_made(void) {
    fbt_start(&strict);
    fbt_put(A);
    FBT_CHECK(fb_is_denied(fb_run(fb_delete(CONFIG_MAP, read_a()), NULL)));
    FBT_CHECK_TEXT(fbt_written(), "delete v1/ConfigMap n/a: the plugin does not ask to delete v1/ConfigMap: add "
                                  "`permission(\"v1/ConfigMap\", \"delete\")` to its description (403 Denied)");
    FBT_CHECK(fb_run(fb_update_status(CONFIG_MAP, read_a(), fb_parse("{\"ready\": true}")), NULL) == NULL);
    FBT_CHECK(fb_flag(read_a(), "status.ready"));
    cJSON *found;
    FBT_CHECK(fb_is_denied(fb_get("v1/Pod", "n", "a", &found)));
}

static const char *names(fb_list list) {
    const char *all = "";
    for (cJSON *object; (object = fb_next(&list)) != NULL;)
        all = fb_format("%s%s ", all, fb_key_of(object).name);
    return list.error == NULL ? all : list.error->reason;
}

static void lists_have_conditions(void) {
    fbt_start(&strict);
    fbt_put(A);
    fbt_put("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\", \"namespace\": \"n\", "
            "\"ownerReferences\": [{\"uid\": \"1\", \"controller\": true}]}, \"data\": {\"x\": \"2\"}}");
    const struct {
        fb_condition_of_list condition;
        const char *names;
    } cases[] = {
        {{"labels", "app=web"}, "a "},
        {{"labels", "!app"}, "b "},
        {{"labels", "app!=web"}, "b "},
        {{"labels", "app in (x, web),app"}, "a "},
        {{"labels", "app notin (web)"}, "b "},
        {{"controller", "1"}, "b "},
        {{"owner", "1"}, "b "},
        {{"orphan", ""}, "a "},
        {{"index/by-x", "2"}, "b "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_list list = {.kind = CONFIG_MAP, .ns = "n", .conditions = &cases[i].condition, .condition_count = 1};
        FBT_CHECK_TEXT(names(list), cases[i].names);
        uint32_t count;
        FBT_CHECK(fb_count(&list, &count) == NULL && count == 1);
    }
    FBT_CHECK_TEXT(names((fb_list){.kind = CONFIG_MAP}), "a b ");
    FBT_CHECK_TEXT(names((fb_list){.kind = "v1/Pod"}), "Denied");
    fb_list rows = {.kind = CONFIG_MAP, .fields = (const char *const[]){"metadata.name", "data.x", NULL}, .rows = true};
    FBT_CHECK_TEXT(fb_print(fb_next(&rows)), "[\"a\",\"1\"]");
}

static void live_reads_ask_the_server(void) {
    fbt_start(NULL);
    fbt_put(A);
    fbt_put_raw("/version", "{\"major\": \"1\"}");
    cJSON *found;
    FBT_CHECK(fb_live_get(CONFIG_MAP, "n", "a", &found) == NULL && found != NULL);
    FBT_CHECK(fb_live_get(CONFIG_MAP, "n", "b", &found) == NULL && found == NULL);
    FBT_CHECK(fb_live_list(CONFIG_MAP, "n", "app", &found) == NULL && cJSON_GetArraySize(found) == 1);
    FBT_CHECK(fb_raw("/version", &found) == NULL);
    FBT_CHECK_TEXT(fb_text(found, "major"), "1");
    fbt_fail("list", CONFIG_MAP, 500, "InternalError");
    FBT_CHECK(fb_is(fb_live_list(CONFIG_MAP, "n", NULL, &found), "InternalError"));
}

static void the_other_imports_are_recorded(void) {
    fbt_start(&strict);
    fb_queue_add_after("slow", "a/b", 7);
    FBT_CHECK_TEXT(fbt_enqueued(), "slow a/b 7");
    fb_metric_add("done_total", 1, "well", NULL);
    FBT_CHECK_TEXT(fbt_metrics(), "add done_total well 1");
    fb_warn("slow %d", 3);
    FBT_CHECK_TEXT(fbt_logged(), "warn slow 3");
    FBT_CHECK_TEXT(fb_config("size"), "7");
    fbt_set_config("size", "8");
    FBT_CHECK_TEXT(fb_config("size"), "8");
    FBT_CHECK(fb_config("other") == NULL);
    uint32_t version;
    FBT_CHECK(fb_memo_get("m", &version) == NULL && version == 0);
    FBT_CHECK(fb_memo_put("m", 0, cJSON_CreateNumber(5), "", 0) == NULL);
    FBT_CHECK(fb_memo_get("m", &version)->valueint == 5 && version == 1);
    FBT_CHECK(fb_is_conflict(fb_memo_put("m", 0, cJSON_CreateNumber(6), "", 0)));
    fbt_add_key("k");
    fbt_add_key("l");
    char *token;
    cJSON *claims;
    FBT_CHECK(fb_sign_jwt("k", fb_parse("{\"sub\": \"me\"}"), &token) == NULL);
    FBT_CHECK(fb_verify_jwt("k", token, &claims) == NULL);
    FBT_CHECK_TEXT(fb_text(claims, "sub"), "me");
    FBT_CHECK(fb_is(fb_verify_jwt("l", token, &claims), "Unauthorized"));
}

static const char *const WEBS =
    "apiVersion: apiextensions.k8s.io/v1\n"
    "kind: CustomResourceDefinition\n"
    "metadata: {name: webs.a.b}\n"
    "spec:\n"
    "  group: a.b\n"
    "  scope: Namespaced\n"
    "  names: {kind: Web, plural: webs}\n"
    "  versions:\n"
    "    - name: v1\n"
    "      served: true\n"
    "      storage: true\n"
    "      schema:\n"
    "        openAPIV3Schema:\n"
    "          type: object\n"
    "          properties:\n"
    "            spec:\n"
    "              type: object\n"
    "              properties:\n"
    "                host: {type: string}\n"
    "                replicas: {type: integer, default: 1}\n";

static void a_field_that_the_definition_lacks_is_dropped_with_a_warning(void) {
    fbt_start(NULL);
    FILE *file = fopen("build/webs.yaml", "w");
    FBT_CHECK(file != NULL && fputs(WEBS, file) >= 0 && fclose(file) == 0);
    fbt_define("build/webs.yaml");
    cJSON *web = fb_parse("{\"metadata\": {\"name\": \"w\"}, \"spec\": {\"host\": \"x\", \"replica\": 2}}");
    FBT_CHECK(fb_run(fb_create("a.b/v1/Web", "a", web), NULL) == NULL);
    FBT_CHECK_TEXT(fb_print(fb_at(fbt_object("a.b/v1/Web", "a", "w"), "spec")), "{\"host\":\"x\",\"replicas\":1}");
    FBT_CHECK_TEXT(fbt_written(), "create a.b/v1/Web a/w: warning: unknown field \"spec.replica\"");
    FBT_CHECK_TEXT(fbt_logged(), "warn the API server warns: unknown field \"spec.replica\" write=create a.b/v1/Web a/w");
}

static void outcomes_and_routed_keys_are_returned(void) {
    fbt_start(&strict);
    fb_outcome outcome = fbt_reconcile("a");
    FBT_CHECK(outcome.kind == FB_REQUEUE_AFTER && outcome.after_ms == 1500);
    fb_delta delta = {.watch = CONFIG_MAP, .delta_type = "added", .after = fb_parse(A)};
    FBT_CHECK_TEXT(fbt_route(delta), "slow a 5");
}

/* A recording of a call that enqueues `a/y` and is called again after five seconds, and of a call of route. */
static const char *const RECORDING =
    "{\"flyballRecording\":1,\"host\":\"0.2.0\",\"world\":\"flyball:controller@0.2.0\",\"plugin\":\"waker\",\"version\":\"1\","
    "\"digest\":\"\",\"builtIn\":false,\"withSecrets\":false,\"readsSecrets\":false,\"at\":\"\",\"limits\":{}}\n"
    "{\"call\":{\"reconcile\":{\"queue\":\"waker\",\"key\":\"a/x\",\"attempt\":2}},\"digest\":\"\",\"kept\":\"asked\",\"steps\":[{\"import\":"
    "\"queue.add\",\"asked\":{\"queue\":\"\",\"key\":\"a/y\",\"delayMs\":0},\"answered\":{\"ok\":null}}],\"ended\":{\"requeueAfter\":{\"ms\":"
    "5000}}}\n"
    "{\"call\":{\"route\":{\"deltas\":[{\"watch\":\"v1/ConfigMap\",\"type\":\"added\",\"new\":{\"metadata\":{\"name\":\"x\"}},\"initial\":true}]}},"
    "\"digest\":\"\",\"kept\":\"asked\",\"steps\":[],\"ended\":{\"routed\":{\"keys\":[{\"queue\":\"slow\",\"key\":\"x\",\"delayMs\":5}]}}}\n";

static int woken;

static fb_outcome wake(const fb_request *request) {
    woken = (int)request->attempt;
    FB_TRY(fb_queue_add("", "a/y"));
    return fb_requeue_after(5000);
}

static void a_recording_is_repeated(void) {
    static const fb_controller waker = {.describe = describe, .reconcile = wake, .route = route};
    char path[] = "build/calls.fbrec";
    FILE *file = fopen(path, "w");
    FBT_CHECK(file != NULL && fputs(RECORDING, file) >= 0 && fclose(file) == 0);
    fbt_replay(&waker, path);
    FBT_CHECK(woken == 2);
}

int main(void) {
    static const fbt_test TESTS[] = {
        FBT_TEST(a_description_is_the_hosts_document),
        FBT_TEST(keys_and_times_are_written_as_the_api_writes_them),
        FBT_TEST(values_are_found_and_set_at_paths),
        FBT_TEST(the_transition_time_moves_only_with_the_status),
        FBT_TEST(a_finalizer_is_added_last_and_removed_alone),
        FBT_TEST(writes_fail_as_the_api_server_refuses_them),
        FBT_TEST(a_batch_stops_after_an_error),
        FBT_TEST(only_permitted_writes_are_made),
        FBT_TEST(lists_have_conditions),
        FBT_TEST(live_reads_ask_the_server),
        FBT_TEST(the_other_imports_are_recorded),
        FBT_TEST(a_recording_is_repeated),
        FBT_TEST(a_field_that_the_definition_lacks_is_dropped_with_a_warning),
        FBT_TEST(outcomes_and_routed_keys_are_returned),
    };
    return fbt_run(TESTS, sizeof TESTS / sizeof *TESTS);
}
