/* The set-up, the actions and the checks of tests: each function is a call to the process that holds the cluster. */
#include "fake.h"

#include <string.h>

#include "server.h"

static const fb_controller *controller;
static cJSON *description;

static cJSON *key_of(const char *kind, const char *ns, const char *name) {
    cJSON *key = cJSON_CreateObject();
    cJSON_AddStringToObject(key, "kind", kind);
    cJSON_AddStringToObject(key, "namespace", fb_or_empty(ns));
    cJSON_AddStringToObject(key, "name", name);
    return key;
}

/* Returns arguments of one or two texts. */
static cJSON *texts(const char *name, const char *value, const char *other_name, const char *other) {
    cJSON *arguments = cJSON_CreateObject();
    cJSON_AddStringToObject(arguments, name, value);
    if (other_name != NULL)
        cJSON_AddStringToObject(arguments, other_name, other);
    return arguments;
}

void fbt_start(const fb_controller *started) {
    fb_end_call();
    fb_begin_call();
    server_new_cluster();
    controller = started;
    description = started == NULL ? NULL : started->describe();
    cJSON *arguments = cJSON_CreateObject();
    cJSON_AddItemToObject(arguments, "description", description == NULL ? cJSON_CreateNull() : cJSON_Duplicate(description, true));
    server_call("restrict", arguments, NULL);
}

fb_outcome fbt_reconcile(const char *key) {
    const char *queue = fb_text(fb_at(description, "queues")->child, "name");
    fb_request request = {.queue = queue, .key = fb_key_parse(key)};
    return controller->reconcile(&request);
}

static void append(const char **lines, const char *line) {
    *lines = **lines ? fb_format("%s\n%s", *lines, line) : line;
}

const char *fbt_route(fb_delta delta) {
    const fb_routed_key *keys;
    const char *failure = controller->route(&delta, 1), *lines = "";
    size_t count = fb_take_routed(&keys);
    for (size_t i = 0; i < count; i++)
        append(&lines, fb_format("%s %s %u", fb_or_empty(keys[i].queue), keys[i].key, (unsigned)keys[i].delay_ms));
    return failure != NULL ? failure : lines;
}

static void with_object(const char *call, const char *json) {
    cJSON *arguments = cJSON_CreateObject();
    cJSON_AddItemToObject(arguments, "object", fb_parse(json));
    server_call(call, arguments, NULL);
}

void fbt_define(const char *file) {
    server_call("define", texts("file", file, NULL, NULL), NULL);
}

void fbt_put(const char *json) {
    with_object("put", json);
}

void fbt_put_live(const char *json) {
    with_object("put-live", json);
}

void fbt_remove_live(const char *kind, const char *ns, const char *name) {
    server_call("remove-live", key_of(kind, ns, name), NULL);
}

void fbt_edit(const char *kind, const char *ns, const char *name, const char *patch) {
    cJSON *arguments = key_of(kind, ns, name);
    cJSON_AddItemToObject(arguments, "patch", fb_parse(patch));
    server_call("edit", arguments, NULL);
}

void fbt_delete(const char *kind, const char *ns, const char *name) {
    server_call("delete", key_of(kind, ns, name), NULL);
}

void fbt_remove(const char *kind, const char *ns, const char *name) {
    server_call("remove", key_of(kind, ns, name), NULL);
}

void fbt_fail(const char *verb, const char *kind, int status, const char *reason) {
    cJSON *arguments = texts("verb", verb, "kind", kind), *error = cJSON_AddObjectToObject(arguments, "error");
    cJSON_AddNumberToObject(arguments, "nth", 1);
    cJSON_AddNumberToObject(error, "status", status);
    cJSON_AddStringToObject(error, "reason", reason);
    cJSON_AddStringToObject(error, "message", fb_format("the test refuses this: %s", reason));
    server_call("fail", arguments, NULL);
}

void fbt_set_config(const char *key, const char *value) {
    server_call("set-config", texts("key", key, "value", value), NULL);
}

void fbt_set_now(fb_time time) {
    cJSON *arguments = cJSON_CreateObject(), *instant = cJSON_AddObjectToObject(arguments, "time");
    cJSON_AddNumberToObject(instant, "seconds", time.seconds);
    cJSON_AddNumberToObject(instant, "nanoseconds", time.nanoseconds);
    server_call("set-now", arguments, NULL);
}

void fbt_advance(uint32_t milliseconds) {
    cJSON *arguments = cJSON_CreateObject();
    cJSON_AddNumberToObject(arguments, "ms", milliseconds);
    server_call("advance", arguments, NULL);
}

void fbt_put_raw(const char *path, const char *json) {
    cJSON *arguments = texts("path", path, NULL, NULL);
    cJSON_AddItemToObject(arguments, "answer", fb_parse(json));
    server_call("put-raw", arguments, NULL);
}

void fbt_observe_deletion(fb_reference object) {
    cJSON *reference = key_of(object.kind, object.ns, object.name);
    cJSON_AddStringToObject(reference, "uid", fb_or_empty(object.uid));
    server_call("observe-deletion", reference, NULL);
}

void fbt_serve(const char *kind, const char *plural, bool namespaced, const char *const *verbs) {
    cJSON *arguments = texts("kind", kind, "plural", plural);
    cJSON_AddBoolToObject(arguments, "namespaced", namespaced);
    cJSON *all = cJSON_AddArrayToObject(arguments, "verbs");
    for (; *verbs != NULL; verbs++)
        cJSON_AddItemToArray(all, cJSON_CreateString(*verbs));
    server_call("serve", arguments, NULL);
}

void fbt_add_key(const char *name) {
    server_call("add-key", texts("name", name, NULL, NULL), NULL);
}

void fbt_add_authority(const char *signer) {
    server_call("add-authority", texts("signer", signer, NULL, NULL), NULL);
}

cJSON *fbt_object(const char *kind, const char *ns, const char *name) {
    cJSON *object;
    server_call("object", key_of(kind, ns, name), &object);
    return cJSON_IsNull(object) ? NULL : object;
}

/* Returns records as lines. */
static const char *recorded(const char *call, const char *(*line)(const cJSON *)) {
    cJSON *all, *one;
    const char *lines = "";
    server_call(call, NULL, &all);
    cJSON_ArrayForEach(one, all) append(&lines, line(one));
    return lines;
}

static const char *own_line(const cJSON *record) {
    return fb_text(record, "line");
}

const char *fbt_written(void) {
    return recorded("writes", own_line);
}

const char *fbt_events(void) {
    return recorded("events", own_line);
}

static const char *line_of_text(const cJSON *record) {
    return record->valuestring;
}

const char *fbt_live_reads(void) {
    return recorded("live-reads", line_of_text);
}

static const char *line_of_key(const cJSON *record) {
    return fb_format("%s %s %u", fb_text(record, "queue"), fb_text(record, "key"), (unsigned)fb_number(record, "delayMs"));
}

const char *fbt_enqueued(void) {
    return recorded("enqueued", line_of_key);
}

static const char *line_of_log(const cJSON *record) {
    const char *line = fb_format("%s %s", fb_text(record, "level"), fb_text(record, "message"));
    cJSON *field;
    cJSON_ArrayForEach(field, fb_at(record, "fields"))
        line = fb_format("%s %s=%s", line, field->child->valuestring, field->child->next->valuestring);
    return line;
}

const char *fbt_logged(void) {
    return recorded("logs", line_of_log);
}

static const char *line_of_metric(const cJSON *record) {
    const char *line = fb_format("%s %s", fb_text(record, "operation"), fb_text(record, "name"));
    cJSON *label;
    cJSON_ArrayForEach(label, fb_at(record, "labels")) line = fb_format("%s %s", line, label->valuestring);
    return fb_format("%s %g", line, fb_at(record, "value")->valuedouble);
}

const char *fbt_metrics(void) {
    return recorded("metrics", line_of_metric);
}
