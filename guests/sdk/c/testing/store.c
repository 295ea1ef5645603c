/* Objects that change as the API server changes them. They are in the call's memory, which lasts for a test. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "../vendor/cJSON_Utils.h"

enum { MOST_OBJECTS = 4096 };

static cJSON *objects[MOST_OBJECTS];
static size_t object_count;
static unsigned last_version;

void store_clear(void) {
    object_count = 0;
    last_version = 0;
}

cJSON *store_at(size_t position) {
    return position < object_count ? objects[position] : NULL;
}

const char *store_kind_of(const cJSON *object) {
    return fb_format("%s/%s", fb_text(object, "apiVersion"), fb_text(object, "kind"));
}

static int compare(const cJSON *left, const cJSON *right) {
    static const char *const PATHS[] = {"metadata.namespace", "metadata.name", "kind", "apiVersion"};
    int order = 0;
    for (size_t i = 0; i < 4 && order == 0; i++)
        order = strcmp(fb_text(left, PATHS[i]), fb_text(right, PATHS[i]));
    return order;
}

cJSON *store_find(const char *kind, const char *ns, const char *name) {
    for (size_t i = 0; i < object_count; i++) {
        fb_key key = fb_key_of(objects[i]);
        if (strcmp(key.name, name) == 0 && strcmp(key.ns, fb_or_empty(ns)) == 0 &&
            strcmp(store_kind_of(objects[i]), kind) == 0)
            return objects[i];
    }
    return NULL;
}

void store_touch(cJSON *object) {
    fb_set_text(object, "metadata.resourceVersion", fb_format("%u", ++last_version));
}

void store_put(cJSON *object) {
    size_t at = 0;
    while (at < object_count && compare(objects[at], object) < 0)
        at++;
    if (at < object_count && compare(objects[at], object) == 0) {
        objects[at] = object;
        return;
    }
    if (object_count == MOST_OBJECTS)
        abort();
    memmove(&objects[at + 1], &objects[at], (object_count - at) * sizeof objects[0]);
    objects[at] = object;
    object_count++;
    ++last_version;
    if (!*fb_text(object, "metadata.uid"))
        fb_set_text(object, "metadata.uid", fb_format("00000000-0000-0000-0000-%012u", last_version));
    if (!*fb_text(object, "metadata.resourceVersion"))
        store_touch(object);
    if (!*fb_text(object, "metadata.creationTimestamp"))
        fb_set_text(object, "metadata.creationTimestamp", fb_rfc3339(fb_now()));
}

void store_remove(const cJSON *object) {
    for (size_t i = 0; i < object_count; i++) {
        if (compare(objects[i], object) == 0) {
            object_count--;
            memmove(&objects[i], &objects[i + 1], (object_count - i) * sizeof objects[0]);
            return;
        }
    }
}

static const fb_error *refuse(int status, const char *reason, const fb_write *write, const char *why) {
    char *message = fb_format("%s %s/%s %s", write->kind, fb_or_empty(write->ns), fb_or_empty(write->name), why);
    return fb_new_error(status, reason, message, FB_EFFECT_REFUSED);
}

/* Copies a field of the metadata from the old object, or removes it if it had none. */
static void keep(cJSON *object, const cJSON *old, const char *field) {
    cJSON *meta = fb_at(object, "metadata"), *value = fb_at(fb_at(old, "metadata"), field);
    cJSON_DeleteItemFromObjectCaseSensitive(meta, field);
    if (value != NULL)
        cJSON_AddItemToObject(meta, field, cJSON_Duplicate(value, true));
}

static const fb_error *create(const fb_write *write, cJSON **stored) {
    cJSON *object = cJSON_Duplicate(write->body, true);
    const char *slash = strrchr(write->kind, '/');
    fb_set_text(object, "apiVersion", fb_copy(write->kind, (size_t)(slash - write->kind)));
    fb_set_text(object, "kind", slash + 1);
    if (*fb_or_empty(write->ns))
        fb_set_text(object, "metadata.namespace", write->ns);
    const char *prefix = fb_text(object, "metadata.generateName");
    if (!*fb_text(object, "metadata.name")) {
        if (!*prefix)
            return refuse(422, "Invalid", write, "has neither a name nor a generateName");
        fb_set_text(object, "metadata.name", fb_format("%s%05u", prefix, last_version + 1));
    }
    if (store_find(write->kind, write->ns, fb_text(object, "metadata.name")) != NULL)
        return refuse(409, "AlreadyExists", write, "already exists");
    static const char *const SET_BY_SERVER[] = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"};
    for (size_t i = 0; i < 4; i++)
        keep(object, NULL, SET_BY_SERVER[i]);
    if (fb_at(object, "spec") != NULL)
        fb_set(object, "metadata.generation", cJSON_CreateNumber(1));
    store_put(object);
    *stored = object;
    return NULL;
}

/* Stores a new version. Removing the last finalizer of an object that is being deleted removes it. */
static void replace(cJSON *old, cJSON *new, bool of_status, cJSON **stored) {
    if (of_status) {
        cJSON *status = cJSON_DetachItemFromObjectCaseSensitive(new, "status");
        new = cJSON_Duplicate(old, true);
        fb_set(new, "status", status);
    } else {
        cJSON *status = fb_at(old, "status");
        cJSON_DeleteItemFromObjectCaseSensitive(new, "status");
        if (status != NULL)
            cJSON_AddItemToObject(new, "status", cJSON_Duplicate(status, true));
        static const char *const KEPT[] = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp",
                                           "deletionTimestamp", "generation"};
        for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
            keep(new, old, KEPT[i]);
    }
    *stored = old;
    if (cJSON_Compare(old, new, true))
        return;
    if (!cJSON_Compare(fb_at(old, "spec"), fb_at(new, "spec"), true) && fb_at(new, "spec") != NULL)
        fb_set(new, "metadata.generation", cJSON_CreateNumber((double)fb_number(old, "metadata.generation") + 1));
    store_touch(new);
    *stored = new;
    store_remove(old);
    if (!fb_is_deleting(new) || cJSON_GetArraySize(fb_at(new, "metadata.finalizers")) > 0)
        store_put(new);
}

static const fb_error *delete(const fb_write *write, cJSON *old, cJSON **stored) {
    const char *uid = fb_text(write->options, "preconditions.uid");
    if (*uid && strcmp(uid, fb_text(old, "metadata.uid")) != 0)
        return refuse(409, "Conflict", write, "has another UID");
    *stored = old;
    if (cJSON_GetArraySize(fb_at(old, "metadata.finalizers")) == 0) {
        store_remove(old);
    } else if (!fb_is_deleting(old)) {
        fb_set_text(old, "metadata.deletionTimestamp", fb_rfc3339(fb_now()));
        store_touch(old);
    }
    return NULL;
}

static const fb_error *patch(const fb_write *write, cJSON *old, cJSON **stored) {
    cJSON *new = cJSON_Duplicate(old, true);
    if (strcmp(write->patch_type, "json") == 0) {
        if (cJSONUtils_ApplyPatchesCaseSensitive(new, write->body) != 0)
            return refuse(422, "Invalid", write, "does not fit the JSON patch");
    } else {
        new = cJSONUtils_MergePatchCaseSensitive(new, write->body);
    }
    replace(old, new, strcmp(fb_or_empty(write->subresource), "status") == 0, stored);
    return NULL;
}

const fb_error *store_write(const fb_write *write, cJSON **stored) {
    if (write->verb == FB_CREATE && *fb_or_empty(write->subresource)) {
        *stored = cJSON_Duplicate(write->body, true);
        return NULL;
    }
    if (write->verb == FB_CREATE)
        return create(write, stored);
    cJSON *old = store_find(write->kind, write->ns, fb_or_empty(write->name));
    if (old == NULL && write->verb == FB_PATCH && strcmp(write->patch_type, "apply") == 0)
        return create(write, stored);
    if (old == NULL)
        return refuse(404, "NotFound", write, "not found");
    if (write->verb == FB_DELETE)
        return delete(write, old, stored);
    if (write->verb == FB_PATCH)
        return patch(write, old, stored);
    if (strcmp(fb_or_empty(write->resource_version), fb_text(old, "metadata.resourceVersion")) != 0)
        return refuse(409, "Conflict", write, "has been modified");
    cJSON *new = cJSON_Duplicate(old, true);
    if (write->verb == FB_UPDATE_STATUS)
        fb_set(new, "status", cJSON_Duplicate(write->body, true));
    else
        new = cJSONUtils_MergePatchCaseSensitive(new, write->body);
    replace(old, new, write->verb == FB_UPDATE_STATUS, stored);
    return NULL;
}

static bool is_in(const char *value, const char *list) {
    size_t length = strlen(value);
    for (list += strspn(list, " ("); *list && *list != ')'; list += strspn(list, " ,")) {
        size_t item = strcspn(list, " ,)");
        if (item == length && strncmp(list, value, length) == 0)
            return true;
        list += item;
    }
    return false;
}

static bool matches_term(const cJSON *object, const char *term) {
    bool absent = *term == '!';
    term += absent;
    char *key = fb_copy(term, strcspn(term, " =!"));
    const char *value = fb_label(object, key), *rest = term + strlen(key);
    rest += strspn(rest, " ");
    if (!*rest)
        return (value == NULL) == absent;
    if (strncmp(rest, "in", 2) == 0)
        return value != NULL && is_in(value, rest + 2);
    if (strncmp(rest, "notin", 5) == 0)
        return value == NULL || !is_in(value, rest + 5);
    bool differs = *rest == '!';
    rest += strspn(rest, "!= ");
    return (value != NULL && strcmp(value, rest) == 0) != differs;
}

bool store_matches(const cJSON *object, const char *selector) {
    while (*selector) {
        size_t length = 0;
        for (bool inside = false; selector[length] && (inside || selector[length] != ','); length++)
            inside = selector[length] == '(' || (inside && selector[length] != ')');
        if (!matches_term(object, fb_copy(selector, length)))
            return false;
        selector += length + (selector[length] == ',');
    }
    return true;
}
