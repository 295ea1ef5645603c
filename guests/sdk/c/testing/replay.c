/* Recorded calls as tests: `flyball record` writes them on a cluster, and a test repeats them in its own process. */
#include "fake.h"
#include "server.h"

#include <limits.h>
#include <stdlib.h>

/* `{name: {field: item}}`: an end of a call, as a recording has it. */
static cJSON *end(const char *name, const char *field, cJSON *item) {
    cJSON *fields = cJSON_CreateObject(), *ended = cJSON_CreateObject();
    if (field != NULL)
        cJSON_AddItemToObject(fields, field, item);
    cJSON_AddItemToObject(ended, name, fields);
    return ended;
}

static cJSON *reconciled(const fb_controller *controller, const cJSON *call) {
    fb_request request = {
        .queue = fb_text(call, "queue"),
        .key = fb_key_parse(fb_text(call, "key")),
        .attempt = (uint32_t)fb_number(call, "attempt"),
    };
    fb_outcome outcome = controller->reconcile(&request);
    switch (outcome.kind) {
    case FB_REQUEUE_AFTER:
        return end("requeueAfter", "ms", cJSON_CreateNumber(outcome.after_ms));
    case FB_FAILED:
        return end("failed", "message", cJSON_CreateString(fb_or_empty(outcome.message)));
    case FB_TERMINAL:
        return end("terminal", "message", cJSON_CreateString(fb_or_empty(outcome.message)));
    default:
        return end("done", NULL, NULL);
    }
}

static cJSON *routed(const fb_controller *controller, const cJSON *call) {
    const cJSON *deltas = fb_at(call, "deltas"), *delta;
    size_t count = (size_t)cJSON_GetArraySize(deltas), i = 0;
    fb_delta *given = calloc(count + 1, sizeof *given);
    cJSON_ArrayForEach(delta, deltas) {
        given[i++] = (fb_delta){
            .watch = fb_text(delta, "watch"),
            .delta_type = fb_text(delta, "type"),
            .before = fb_at(delta, "old"),
            .after = fb_at(delta, "new"),
            .initial = cJSON_IsTrue(fb_at(delta, "initial")),
        };
    }
    const fb_routed_key *keys;
    const char *failure = controller->route(given, count);
    free(given);
    size_t found = fb_take_routed(&keys);
    if (failure != NULL)
        return end("notRouted", "message", cJSON_CreateString(failure));
    cJSON *list = cJSON_CreateArray();
    for (size_t k = 0; k < found; k++) {
        cJSON *key = cJSON_CreateObject();
        cJSON_AddStringToObject(key, "queue", fb_or_empty(keys[k].queue));
        cJSON_AddStringToObject(key, "key", keys[k].key);
        cJSON_AddNumberToObject(key, "delayMs", keys[k].delay_ms);
        cJSON_AddItemToArray(list, key);
    }
    return end("routed", "keys", list);
}

/* Returns how a call ends; NULL for a call that only `flyball replay` repeats. */
static cJSON *run(const fb_controller *controller, const cJSON *call) {
    if (fb_at(call, "reconcile") != NULL)
        return reconciled(controller, fb_at(call, "reconcile"));
    if (fb_at(call, "route") != NULL && controller->route != NULL)
        return routed(controller, fb_at(call, "route"));
    if (fb_at(call, "describe") != NULL)
        return end("described", "description", cJSON_Duplicate(controller->describe(), true));
    return NULL;
}

void fbt_replay(const fb_controller *controller, const char *file) {
    char path[PATH_MAX];
    bool exists = realpath(file, path) != NULL;
    fbt_check(exists, __FILE__, __LINE__, "there is no recording %s", file);
    if (!exists)
        return;
    fb_end_call();
    fb_begin_call();
    cJSON *calls, *arguments = cJSON_CreateObject();
    cJSON_AddStringToObject(arguments, "file", path);
    server_call("recording", arguments, &calls);
    fbt_check(cJSON_GetArraySize(calls) > 0, __FILE__, __LINE__, "%s: the recording has no call to repeat", file);
    const cJSON *recorded;
    cJSON_ArrayForEach(recorded, calls) {
        server_open_recorded(path, (int)fb_number(recorded, "line"));
        cJSON *ended = run(controller, fb_at(recorded, "call"));
        if (ended == NULL)
            continue;
        cJSON *with = cJSON_CreateObject();
        cJSON_AddItemToObject(with, "ended", ended);
        server_call("replayed", with, NULL);
    }
}
