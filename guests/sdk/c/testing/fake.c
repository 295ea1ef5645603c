/* The functions of the world, answered in memory. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

#include "../vendor/cJSON_Utils.h"

static const fb_controller *controller;
static cJSON *description; /* NULL for no restrictions. */
static fb_time now;
static cJSON *config, *raw, *memo;
static struct {
    const char *verb, *kind, *reason;
    int status;
} fault;
static const char *written, *events, *enqueued, *logged, *measured;

static void append(const char **lines, const char *line) {
    *lines = **lines ? fb_format("%s\n%s", *lines, line) : line;
}

static const char *take(const char **lines) {
    const char *taken = *lines;
    *lines = "";
    return taken;
}

const char *fbt_written(void) {
    return take(&written);
}

const char *fbt_events(void) {
    return take(&events);
}

const char *fbt_enqueued(void) {
    return take(&enqueued);
}

const char *fbt_logged(void) {
    return take(&logged);
}

const char *fbt_measured(void) {
    return take(&measured);
}

void fbt_start(const fb_controller *started) {
    fb_end_call();
    fb_begin_call();
    store_clear();
    fault.verb = NULL;
    now = (fb_time){.seconds = 1767225600};
    written = events = enqueued = logged = measured = "";
    config = cJSON_CreateObject();
    raw = cJSON_CreateObject();
    memo = cJSON_CreateObject();
    controller = started;
    description = started == NULL ? NULL : started->describe();
}

fb_outcome fbt_reconcile(const char *key) {
    const char *queue = fb_text(fb_at(description, "queues")->child, "name");
    fb_request request = {.queue = queue, .key = fb_key_parse(key)};
    return controller->reconcile(&request);
}

const char *fbt_route(fb_delta delta) {
    const fb_routed_key *keys;
    const char *failure = controller->route(&delta, 1), *lines = "";
    size_t count = fb_take_routed(&keys);
    for (size_t i = 0; i < count; i++)
        append(&lines, fb_format("%s %s %u", fb_or_empty(keys[i].queue), keys[i].key, (unsigned)keys[i].delay_ms));
    return failure != NULL ? failure : lines;
}

void fbt_put(const char *json) {
    store_put(fb_parse(json));
}

/* Returns the object, and ends the test program if there is none. */
static cJSON *found(const char *kind, const char *ns, const char *name) {
    cJSON *object = store_find(kind, ns, name);
    if (object == NULL) {
        fprintf(stderr, "there is no %s %s/%s\n", kind, fb_or_empty(ns), name);
        exit(1);
    }
    return object;
}

void fbt_edit(const char *kind, const char *ns, const char *name, const char *patch) {
    cJSON *old = found(kind, ns, name);
    cJSON *new = cJSONUtils_MergePatchCaseSensitive(cJSON_Duplicate(old, true), fb_parse(patch));
    store_touch(new);
    store_put(new);
}

void fbt_delete(const char *kind, const char *ns, const char *name) {
    found(kind, ns, name);
    fb_write write = fb_delete_name(kind, (fb_key){ns, name});
    cJSON *deleted;
    store_write(&write, &deleted);
}

void fbt_remove(const char *kind, const char *ns, const char *name) {
    store_remove(found(kind, ns, name));
}

void fbt_fail(const char *verb, const char *kind, int status, const char *reason) {
    fault.verb = verb;
    fault.kind = kind;
    fault.status = status;
    fault.reason = reason;
}

void fbt_set_config(const char *key, const char *value) {
    cJSON_DeleteItemFromObjectCaseSensitive(config, key);
    cJSON_AddStringToObject(config, key, value);
}

void fbt_set_time(fb_time time) {
    now = time;
}

void fbt_set_raw(const char *path, const char *json) {
    cJSON_DeleteItemFromObjectCaseSensitive(raw, path);
    cJSON_AddItemToObject(raw, path, fb_parse(json));
}

cJSON *fbt_object(const char *kind, const char *ns, const char *name) {
    cJSON *object = store_find(kind, ns, name);
    return object == NULL ? NULL : cJSON_Duplicate(object, true);
}

static bool has(const cJSON *array, const char *text) {
    cJSON *one;
    cJSON_ArrayForEach(one, array) {
        if (fbt_same(cJSON_GetStringValue(one), text))
            return true;
    }
    return false;
}

/* Checks the permissions that the controller describes, and fails if a failure is due. */
static const fb_error *admit(const char *verb, const char *kind, const char *subresource) {
    bool granted = description == NULL;
    cJSON *permission;
    cJSON_ArrayForEach(permission, fb_at(description, "permissions")) {
        const char *of = fb_text(permission, "kind");
        cJSON *verbs = fb_at(permission, "verbs");
        granted |= (fbt_same(of, kind) || fbt_same(of, "*")) && (has(verbs, verb) || has(verbs, "*")) &&
                   fbt_same(fb_text(permission, "subresource"), subresource);
    }
    if (!granted) {
        char *why = fb_format("the policy does not let this plugin %s %s%s%s", verb, kind, *subresource ? "/" : "", subresource);
        return fb_new_error(403, "Denied", why, FB_EFFECT_NONE);
    }
    if (fault.verb != NULL && fbt_same(fault.verb, verb) && fbt_same(fault.kind, kind)) {
        fault.verb = NULL;
        return fb_new_error(fault.status, fault.reason, fb_format("the test refuses this: %s", fault.reason),
                            fault.status < 500 ? FB_EFFECT_REFUSED : FB_EFFECT_UNKNOWN);
    }
    return NULL;
}

static const fb_error *check_watched(const char *kind) {
    bool watched = description == NULL;
    cJSON *watch;
    cJSON_ArrayForEach(watch, fb_at(description, "watches"))
        watched |= fbt_same(fb_text(watch, "kind"), kind) || fb_at(watch, "discovered") != NULL;
    return watched ? NULL
                   : fb_new_error(403, "Denied", fb_format("%s is not among the plugin's watches", kind), FB_EFFECT_NONE);
}

const fb_error *fb_get(const char *kind, const char *ns, const char *name, cJSON **object) {
    *object = fbt_object(kind, ns, name);
    return check_watched(kind);
}

static bool meets(const cJSON *object, fb_condition_of_list condition) {
    cJSON *owner;
    if (fbt_same(condition.name, "labels"))
        return store_matches(object, condition.value);
    if (fbt_same(condition.name, "uid"))
        return fbt_same(fb_text(object, "metadata.uid"), condition.value);
    if (fbt_same(condition.name, "controller"))
        return fbt_same(fb_text(fb_get_controller(object), "uid"), condition.value);
    if (fbt_same(condition.name, "orphan"))
        return fb_get_controller(object) == NULL;
    if (fbt_same(condition.name, "owner")) {
        cJSON_ArrayForEach(owner, fb_at(object, "metadata.ownerReferences")) {
            if (fbt_same(fb_text(owner, "uid"), condition.value))
                return true;
        }
        return false;
    }
    cJSON *index;
    cJSON_ArrayForEach(index, fb_at(description, "indexes")) {
        if (fbt_same(fb_format("index/%s", fb_text(index, "name")), condition.name))
            return fbt_same(fb_text(object, fb_text(index, "path")), condition.value);
    }
    return false;
}

static cJSON *matching(const char *kind, const char *ns, const fb_condition_of_list *conditions, size_t count) {
    cJSON *items = cJSON_CreateArray(), *object;
    for (size_t i = 0; (object = store_at(i)) != NULL; i++) {
        bool holds = (fbt_same(kind, "*") || fbt_same(store_kind_of(object), kind)) &&
                     (!*fb_or_empty(ns) || fbt_same(fb_key_of(object).ns, ns));
        for (size_t j = 0; j < count && holds; j++)
            holds = meets(object, conditions[j]);
        if (holds)
            cJSON_AddItemToArray(items, cJSON_Duplicate(object, true));
    }
    return items;
}

void fb_load_page(fb_list *list) {
    list->state = FB_LIST_LAST;
    list->error = check_watched(list->kind);
    if (list->error != NULL)
        return;
    cJSON *items = matching(list->kind, list->ns, list->conditions, list->condition_count);
    if (list->rows) {
        cJSON *rows = cJSON_CreateArray(), *object;
        cJSON_ArrayForEach(object, items) {
            cJSON *row = cJSON_CreateArray();
            for (size_t i = 0; list->fields[i] != NULL; i++) {
                cJSON *value = fb_at(object, list->fields[i]);
                cJSON_AddItemToArray(row, value == NULL ? cJSON_CreateNull() : cJSON_Duplicate(value, true));
            }
            cJSON_AddItemToArray(rows, row);
        }
        items = rows;
    }
    list->item = items->child;
}

const fb_error *fb_count(const fb_list *list, uint32_t *count) {
    *count = (uint32_t)cJSON_GetArraySize(matching(list->kind, list->ns, list->conditions, list->condition_count));
    return check_watched(list->kind);
}

bool fb_deletion_observed(fb_reference object) {
    (void)object;
    return false;
}

static const fb_error *read_one(const fb_read *read, cJSON **document) {
    if (read->verb == FB_READ_RAW) {
        *document = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(raw, read->path), true);
        return *document ? NULL : fb_new_error(404, "NotFound", "there is no such path", FB_EFFECT_NONE);
    }
    const fb_error *error = admit(read->verb == FB_READ_GET ? "get" : "list", read->kind, "");
    if (error != NULL)
        return error;
    if (read->verb == FB_READ_GET) {
        *document = fbt_object(read->kind, read->ns, read->name);
        return *document ? NULL : fb_new_error(404, "NotFound", "there is no such object", FB_EFFECT_NONE);
    }
    fb_condition_of_list labels = {"labels", ""};
    for (size_t i = 0; i < read->parameter_count; i++)
        if (fbt_same(read->parameters[i].name, "labelSelector"))
            labels.value = read->parameters[i].value;
    *document = cJSON_CreateObject();
    cJSON_AddItemToObject(*document, "items", matching(read->kind, read->ns, &labels, 1));
    return NULL;
}

void fb_run_reads(const fb_read *reads, size_t count, fb_result *results) {
    for (size_t i = 0; i < count; i++)
        results[i].error = read_one(&reads[i], &results[i].document);
}

const fb_error *fb_kinds(cJSON **kinds) {
    *kinds = fb_parse("{\"kinds\": [], \"failures\": {}}");
    return NULL;
}

static const fb_error *write_one(const fb_write *write, cJSON **stored) {
    static const char *const VERBS[] = {"create", "update", "update", "patch", "delete", "deletecollection"};
    const char *verb = VERBS[write->verb];
    const char *subresource = write->verb == FB_UPDATE_STATUS ? "status" : fb_or_empty(write->subresource);
    const fb_error *error = admit(verb, write->kind, subresource);
    if (error == NULL && write->verb == FB_DELETE_COLLECTION) {
        fb_condition_of_list labels = {"labels", fb_or_empty(write->label_selector)};
        cJSON *object;
        cJSON_ArrayForEach(object, matching(write->kind, write->ns, &labels, 1)) {
            fb_write one = fb_delete_name(write->kind, fb_key_of(object));
            store_write(&one, stored);
        }
    } else if (error == NULL) {
        error = store_write(write, stored);
    }
    const char *name = fb_or_empty(write->name);
    fb_key key = {write->ns, *name ? name : fb_text(*stored ? *stored : write->body, "metadata.name")};
    append(&written, fb_format("%s %s%s%s %s%s%s", verb, write->kind, *subresource ? "/" : "", subresource,
                               *key.name ? fb_key_text(key) : fb_or_empty(key.ns), error ? ": " : "",
                               error ? error->reason : ""));
    return error;
}

void fb_run_writes(const fb_write *writes, size_t count, uint32_t slow_start, bool stop_on_error, fb_result *results) {
    size_t size = stop_on_error ? 1 : slow_start > 0 ? slow_start : count;
    bool failed = false;
    for (size_t start = 0; start < count; start += size, size *= stop_on_error ? 1 : 2) {
        bool skips = failed && (stop_on_error || slow_start > 0);
        for (size_t i = start; i < count && i < start + size; i++) {
            cJSON *stored = NULL;
            results[i].error = skips ? fb_new_error(424, "Skipped", "an earlier write failed", FB_EFFECT_NONE)
                                     : write_one(&writes[i], &stored);
            results[i].document = writes[i].returns && stored ? cJSON_Duplicate(stored, true) : NULL;
            failed |= results[i].error != NULL;
        }
    }
}

void fb_emit(fb_reference about, const char *type, const char *reason, const char *message, const cJSON *options) {
    (void)about;
    (void)options;
    append(&events, fb_format("%s %s %s", type, reason, message));
}

const fb_error *fb_queue_add(const char *queue, const char *key) {
    return fb_queue_add_after(queue, key, 0);
}

const fb_error *fb_queue_add_after(const char *queue, const char *key, uint32_t delay_ms) {
    append(&enqueued, fb_format("%s %s %u", fb_or_empty(queue), key, (unsigned)delay_ms));
    return NULL;
}

const fb_error *fb_queue_forget(const char *queue, const char *key) {
    (void)queue;
    (void)key;
    return NULL;
}

const fb_error *fb_queue_requeues(const char *queue, const char *key, uint32_t *count) {
    *count = 0;
    return fb_queue_forget(queue, key);
}

fb_time fb_now(void) {
    return now;
}

/* The same bytes in each run. */
void fb_random(void *bytes, size_t count) {
    static uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        ((uint8_t *)bytes)[i] = (uint8_t)(state >> 24);
    }
}

bool fb_log_enabled(fb_level level) {
    (void)level;
    return true;
}

void fb_log_fields(fb_level level, const char *message, const fb_condition_of_list *fields, size_t count) {
    static const char *const LEVELS[] = {"trace", "debug", "info", "warn", "error"};
    const char *line = fb_format("%s %s", LEVELS[level], message);
    for (size_t i = 0; i < count; i++)
        line = fb_format("%s %s=%s", line, fields[i].name, fields[i].value);
    append(&logged, line);
}

void fb_metric(const char *operation, const char *name, double value, const char *const *labels, size_t count) {
    const char *line = fb_format("%s %s", operation, name);
    for (size_t i = 0; i < count; i++)
        line = fb_format("%s %s", line, labels[i]);
    append(&measured, fb_format("%s %g", line, value));
}

const char *fb_config(const char *key) {
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, key));
    cJSON *declared = cJSON_GetObjectItemCaseSensitive(fb_at(description, "config"), key);
    return value != NULL ? value : cJSON_GetStringValue(fb_at(declared, "default"));
}

cJSON *fb_memo_get(const char *key, uint32_t *version) {
    cJSON *entry = cJSON_GetObjectItemCaseSensitive(memo, key);
    if (version != NULL)
        *version = (uint32_t)fb_number(entry, "version");
    return entry == NULL ? NULL : cJSON_Duplicate(fb_at(entry, "value"), true);
}

const fb_error *fb_memo_put(const char *key, uint32_t expected, const cJSON *value, const char *object_uid, uint32_t ttl_ms) {
    (void)object_uid;
    (void)ttl_ms;
    uint32_t version;
    fb_memo_get(key, &version);
    if (version != expected)
        return fb_new_error(409, "Conflict", "the memo has another version", FB_EFFECT_NONE);
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddNumberToObject(entry, "version", expected + 1);
    cJSON_AddItemToObject(entry, "value", cJSON_Duplicate(value, true));
    fb_memo_remove(key);
    cJSON_AddItemToObject(memo, key, entry);
    return NULL;
}

void fb_memo_remove(const char *key) {
    cJSON_DeleteItemFromObjectCaseSensitive(memo, key);
}

static const fb_error *no_key(const char *key) {
    return fb_new_error(404, "NotFound", fb_format("the fake has no key or authority %s", key), FB_EFFECT_NONE);
}

const fb_error *fb_sign_jwt(const char *key, const cJSON *claims, char **token) {
    *token = fb_format("%s:%s", key, fb_print(claims));
    return NULL;
}

const fb_error *fb_verify_jwt(const char *key, const char *token, cJSON **claims) {
    size_t length = strlen(key);
    if (strncmp(token, key, length) != 0 || token[length] != ':')
        return fb_new_error(401, "Unauthorized", "the token was not signed by this key", FB_EFFECT_NONE);
    *claims = fb_parse(token + length + 1);
    return NULL;
}

const fb_error *fb_certificate_authority(const char *signer, fb_bytes **certificates, size_t *count) {
    *certificates = NULL;
    *count = 0;
    return no_key(signer);
}

const fb_error *fb_sign_certificate(const char *signer, const fb_certificate_template *template, fb_bytes *certificate) {
    (void)template;
    *certificate = (fb_bytes){0};
    return no_key(signer);
}
