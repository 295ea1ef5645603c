/* Builders for the description: parts of describe.schema.json. */
#include <string.h>

#include "internal.h"

/* Returns the array of this name, which is added if it is missing. */
static cJSON *array_of(cJSON *parent, const char *name) {
    cJSON *array = cJSON_GetObjectItemCaseSensitive(parent, name);
    return array != NULL ? array : cJSON_AddArrayToObject(parent, name);
}

static cJSON *add(cJSON *parent, const char *array) {
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddItemToArray(array_of(parent, array), entry);
    return entry;
}

static void add_texts(cJSON *array, va_list texts) {
    for (const char *text; (text = va_arg(texts, const char *)) != NULL;)
        cJSON_AddItemToArray(array, cJSON_CreateString(text));
}

cJSON *fb_describe(const char *name, const char *version) {
    fb_begin_call();
    cJSON *description = cJSON_CreateObject();
    cJSON_AddNumberToObject(description, "format", 1);
    cJSON_AddStringToObject(description, "name", name);
    cJSON_AddStringToObject(description, "version", version);
    fb_add_queue(description, name);
    return description;
}

cJSON *fb_watch(cJSON *description, const char *kind, ...) {
    cJSON *watch = add(description, "watches");
    cJSON_AddStringToObject(watch, "kind", kind);
    va_list fields;
    va_start(fields, kind);
    add_texts(array_of(watch, "fields"), fields);
    va_end(fields);
    return watch;
}

cJSON *fb_watch_discovered(cJSON *description, uint32_t period_ms) {
    cJSON *watch = add(description, "watches");
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(watch, "discovered"), "periodMs", period_ms);
    return watch;
}

cJSON *fb_enqueue(cJSON *watch, cJSON *mapping) {
    cJSON_AddItemToArray(array_of(watch, "map"), mapping);
    return mapping;
}

static cJSON *mapping(const char *to, const char *name, const char *value) {
    cJSON *made = cJSON_CreateObject();
    cJSON_AddStringToObject(made, "to", to);
    if (name != NULL)
        cJSON_AddStringToObject(made, name, value);
    return made;
}

cJSON *fb_itself(void) {
    return mapping("itself", NULL, NULL);
}

cJSON *fb_controller_of(const char *kind) {
    return mapping("controller", "kind", kind);
}

cJSON *fb_owners_of(const char *kind) {
    return mapping("owner", "kind", kind);
}

cJSON *fb_named(const char *path, bool namespaced) {
    cJSON *made = mapping("named", "path", path);
    cJSON_AddBoolToObject(made, "namespaced", namespaced);
    return made;
}

cJSON *fb_selecting(const char *kind, const char *path) {
    cJSON *made = mapping("selecting", "kind", kind);
    cJSON_AddStringToObject(made, "path", path);
    return made;
}

cJSON *fb_all_in_namespace(const char *kind) {
    return mapping("inNamespace", "kind", kind);
}

cJSON *fb_all_of(const char *kind) {
    return mapping("all", "kind", kind);
}

cJSON *fb_its_namespace(void) {
    return mapping("namespace", NULL, NULL);
}

cJSON *fb_constant_key(const char *key) {
    return mapping("constant", "key", key);
}

cJSON *fb_its_reference(void) {
    return mapping("reference", NULL, NULL);
}

cJSON *fb_dependents(void) {
    return mapping("dependents", NULL, NULL);
}

cJSON *fb_owner_references(const char *which) {
    return mapping("ownerReferences", "which", which);
}

cJSON *fb_routed(void) {
    return mapping("route", NULL, NULL);
}

void fb_permission(cJSON *description, const char *kind, const char *subresource, ...) {
    cJSON *permission = add(description, "permissions");
    cJSON_AddStringToObject(permission, "kind", kind);
    if (*fb_or_empty(subresource))
        cJSON_AddStringToObject(permission, "subresource", subresource);
    va_list verbs;
    va_start(verbs, subresource);
    add_texts(array_of(permission, "verbs"), verbs);
    va_end(verbs);
}

void fb_in_namespaces(cJSON *description, ...) {
    cJSON *permissions = array_of(description, "permissions");
    cJSON *permission = cJSON_GetArrayItem(permissions, cJSON_GetArraySize(permissions) - 1);
    if (permission == NULL)
        return;
    va_list namespaces;
    va_start(namespaces, description);
    add_texts(array_of(permission, "namespaces"), namespaces);
    va_end(namespaces);
}

void fb_import(cJSON *description, const char *import) {
    cJSON_AddItemToArray(array_of(description, "imports"), cJSON_CreateString(import));
}

cJSON *fb_add_queue(cJSON *description, const char *name) {
    cJSON *queue = add(description, "queues");
    cJSON_AddStringToObject(queue, "name", name);
    return queue;
}

void fb_add_index(cJSON *description, const char *name, const char *kind, const char *path) {
    cJSON *index = add(description, "indexes");
    cJSON_AddStringToObject(index, "name", name);
    cJSON_AddStringToObject(index, "kind", kind);
    cJSON_AddStringToObject(index, "path", path);
}

cJSON *fb_add_ticker(cJSON *description, const char *key, uint32_t period_ms) {
    cJSON *ticker = add(description, "tickers");
    cJSON_AddStringToObject(ticker, "key", key);
    cJSON_AddNumberToObject(ticker, "periodMs", period_ms);
    return ticker;
}

void fb_add_config(cJSON *description, const char *key, const char *fallback, const char *help) {
    cJSON *all = cJSON_GetObjectItemCaseSensitive(description, "config");
    cJSON *value = cJSON_AddObjectToObject(all != NULL ? all : cJSON_AddObjectToObject(description, "config"), key);
    cJSON_AddStringToObject(value, "help", help);
    if (fallback != NULL)
        cJSON_AddStringToObject(value, "default", fallback);
}

cJSON *fb_add_metric(cJSON *description, const char *type, const char *name, const char *help, ...) {
    cJSON *metric = add(description, "metrics");
    cJSON_AddStringToObject(metric, "type", type);
    cJSON_AddStringToObject(metric, "name", name);
    cJSON_AddStringToObject(metric, "help", help);
    va_list labels;
    va_start(labels, help);
    add_texts(array_of(metric, "labels"), labels);
    va_end(labels);
    return metric;
}
