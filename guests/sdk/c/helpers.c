/* Finalizers, conditions and owner references. */
#include <string.h>

#include "internal.h"

bool fb_is_deleting(const cJSON *object) {
    return *fb_text(object, "metadata.deletionTimestamp") != '\0';
}

bool fb_has_finalizer(const cJSON *object, const char *finalizer) {
    cJSON *own;
    cJSON_ArrayForEach(own, fb_at(object, "metadata.finalizers")) {
        if (strcmp(fb_or_empty(cJSON_GetStringValue(own)), finalizer) == 0)
            return true;
    }
    return false;
}

static fb_write set_finalizers(const char *kind, const cJSON *object, const char *added, const char *removed) {
    cJSON *change = cJSON_CreateObject();
    cJSON *finalizers = cJSON_CreateArray();
    fb_set(change, "metadata.finalizers", finalizers);
    cJSON *own;
    cJSON_ArrayForEach(own, fb_at(object, "metadata.finalizers")) {
        const char *text = fb_or_empty(cJSON_GetStringValue(own));
        if (removed == NULL || strcmp(text, removed) != 0)
            cJSON_AddItemToArray(finalizers, cJSON_CreateString(text));
    }
    if (added != NULL)
        cJSON_AddItemToArray(finalizers, cJSON_CreateString(added));
    return fb_update(kind, object, change);
}

fb_write fb_add_finalizer(const char *kind, const cJSON *object, const char *finalizer) {
    return set_finalizers(kind, object, finalizer, NULL);
}

fb_write fb_remove_finalizer(const char *kind, const cJSON *object, const char *finalizer) {
    return set_finalizers(kind, object, NULL, finalizer);
}

cJSON *fb_get_condition(const cJSON *conditions, const char *type) {
    cJSON *condition;
    cJSON_ArrayForEach(condition, conditions) {
        if (strcmp(fb_text(condition, "type"), type) == 0)
            return condition;
    }
    return NULL;
}

bool fb_set_condition(cJSON *conditions, fb_condition condition) {
    cJSON *old = fb_get_condition(conditions, condition.type);
    cJSON *new = cJSON_CreateObject();
    fb_set_text(new, "type", condition.type);
    fb_set_text(new, "status", condition.status);
    fb_set_text(new, "reason", fb_or_empty(condition.reason));
    fb_set_text(new, "message", fb_or_empty(condition.message));
    if (condition.observed_generation != 0)
        cJSON_AddNumberToObject(new, "observedGeneration", (double)condition.observed_generation);
    const char *time = fb_text(old, "lastTransitionTime");
    if (*time == '\0' || strcmp(fb_text(old, "status"), condition.status) != 0)
        time = fb_rfc3339(fb_now());
    fb_set_text(new, "lastTransitionTime", time);
    if (old == NULL) {
        cJSON_AddItemToArray(conditions, new);
        return true;
    }
    if (cJSON_Compare(old, new, true))
        return false;
    cJSON_ReplaceItemViaPointer(conditions, old, new);
    return true;
}

cJSON *fb_get_controller(const cJSON *object) {
    cJSON *owner;
    cJSON_ArrayForEach(owner, fb_at(object, "metadata.ownerReferences")) {
        if (fb_flag(owner, "controller"))
            return owner;
    }
    return NULL;
}

bool fb_is_controlled_by(const cJSON *object, const cJSON *owner) {
    const char *uid = fb_text(owner, "metadata.uid");
    return *uid && strcmp(fb_text(fb_get_controller(object), "uid"), uid) == 0;
}

cJSON *fb_owner_reference(const char *kind, const cJSON *owner) {
    const char *slash = strrchr(kind, '/');
    cJSON *reference = cJSON_CreateObject();
    fb_set_text(reference, "apiVersion", slash == NULL ? "" : fb_copy(kind, (size_t)(slash - kind)));
    fb_set_text(reference, "kind", slash == NULL ? kind : slash + 1);
    fb_set_text(reference, "name", fb_text(owner, "metadata.name"));
    fb_set_text(reference, "uid", fb_text(owner, "metadata.uid"));
    return reference;
}

cJSON *fb_controller_reference(const char *kind, const cJSON *owner) {
    cJSON *reference = fb_owner_reference(kind, owner);
    cJSON_AddBoolToObject(reference, "controller", true);
    cJSON_AddBoolToObject(reference, "blockOwnerDeletion", true);
    return reference;
}
