/* Gives each Greeting a ConfigMap with its text.
 *
 * A Greeting NAME gets a ConfigMap NAME, which it controls, with the key `text`. Changed data is corrected. The
 * condition `Ready` tells how it went. A finalizer keeps a Greeting until its ConfigMap is deleted. */
/* ANCHOR: kinds */
#include "greeter.h"

#include <string.h>
/* ANCHOR_END: kinds */

/* ANCHOR: describe */
static cJSON *describe(void) {
    cJSON *description = fb_describe("greeter-c", "0.1.0");
    cJSON *greetings = fb_watch(description, GREETING, "metadata", "spec.text", "status", NULL);
    fb_enqueue(greetings, fb_itself());
    cJSON *config_maps = fb_watch(description, CONFIG_MAP, "metadata.ownerReferences", "data.text", NULL);
    fb_enqueue(config_maps, fb_controller_of(GREETING));
    fb_permission(description, GREETING, "", "get", "update", NULL);
    fb_permission(description, GREETING, "status", "update", NULL);
    fb_permission(description, GREETING, "finalizers", "update", NULL);
    fb_permission(description, CONFIG_MAP, "", "get", "create", "update", "delete", NULL);
    return description;
}
/* ANCHOR_END: describe */

/* ANCHOR: steps */
/* Returns the ConfigMap that a Greeting asks for. */
static cJSON *config_map(const cJSON *greeting) {
    cJSON *made = cJSON_CreateObject();
    fb_set_text(made, "metadata.name", fb_text(greeting, "metadata.name"));
    cJSON *owners = cJSON_CreateArray();
    cJSON_AddItemToArray(owners, fb_controller_reference(GREETING, greeting));
    fb_set(made, "metadata.ownerReferences", owners);
    fb_set_text(made, "data.text", fb_text(greeting, "spec.text"));
    return made;
}

/* Creates or corrects the ConfigMap, and sets the condition `Ready`. */
static const fb_error *keep_config_map(const cJSON *greeting, fb_condition *ready) {
    fb_key key = fb_key_of(greeting);
    const char *text = fb_text(greeting, "spec.text");
    cJSON *found;
    const fb_error *error = fb_get(CONFIG_MAP, key.ns, key.name, &found);
    if (error != NULL)
        return error;
    ready->type = "Ready";
    ready->observed_generation = fb_number(greeting, "metadata.generation");
    if (found != NULL && !fb_is_controlled_by(found, greeting)) {
        ready->status = "False";
        ready->reason = "NameTaken";
        ready->message = fb_format("ConfigMap %s exists and this Greeting does not control it", key.name);
        return NULL;
    }
    ready->status = "True";
    ready->reason = "Greeted";
    if (found == NULL) {
        error = fb_run(fb_create(CONFIG_MAP, key.ns, config_map(greeting)), NULL);
    } else if (strcmp(fb_text(found, "data.text"), text) != 0) {
        cJSON *change = cJSON_CreateObject();
        fb_set_text(change, "data.text", text);
        error = fb_run(fb_update(CONFIG_MAP, found, change), NULL);
    } else {
        return NULL;
    }
    if (error == NULL) {
        fb_info("wrote the ConfigMap %s", fb_key_text(key));
        fb_emit(GREETING, greeting, "Normal", "Greeted", fb_format("wrote ConfigMap %s", key.name), NULL);
    }
    return error;
}
/* ANCHOR_END: steps */

/* ANCHOR: report */
/* Writes the status if it has changed. */
static const fb_error *report(const cJSON *greeting, fb_condition ready) {
    cJSON *old = fb_at(greeting, "status");
    cJSON *status = cJSON_IsObject(old) ? cJSON_Duplicate(old, true) : cJSON_CreateObject();
    cJSON *conditions = fb_at(status, "conditions");
    if (!cJSON_IsArray(conditions)) {
        conditions = cJSON_CreateArray();
        fb_set(status, "conditions", conditions);
    }
    bool was_taken = strcmp(fb_text(fb_get_condition(conditions, "Ready"), "reason"), "NameTaken") == 0;
    bool changed = fb_set_condition(conditions, ready);
    if (changed || fb_number(status, "observedGeneration") != ready.observed_generation) {
        fb_set(status, "observedGeneration", cJSON_CreateNumber((double)ready.observed_generation));
        const fb_error *error = fb_run(fb_update_status(GREETING, greeting, status), NULL);
        if (error != NULL)
            return error;
    }
    if (strcmp(ready.reason, "NameTaken") == 0 && !was_taken)
        fb_emit(GREETING, greeting, "Warning", "NameTaken", ready.message, NULL);
    return NULL;
}
/* ANCHOR_END: report */

/* ANCHOR: clean-up */
/* Deletes the ConfigMap and then removes the finalizer. */
static const fb_error *clean_up(const cJSON *greeting) {
    if (!fb_has_finalizer(greeting, FINALIZER))
        return NULL;
    fb_key key = fb_key_of(greeting);
    cJSON *found;
    const fb_error *error = fb_get(CONFIG_MAP, key.ns, key.name, &found);
    if (error == NULL && found != NULL && fb_is_controlled_by(found, greeting))
        error = fb_run(fb_delete(CONFIG_MAP, found), NULL);
    if (error != NULL && !fb_is_not_found(error) && !fb_is_conflict(error))
        return error;
    return fb_run(fb_remove_finalizer(GREETING, greeting, FINALIZER), NULL);
}
/* ANCHOR_END: clean-up */

/* ANCHOR: reconcile */
static fb_outcome reconcile(const fb_request *request) {
    cJSON *greeting;
    FB_TRY(fb_get(GREETING, request->key.ns, request->key.name, &greeting));
    if (greeting == NULL)
        return fb_done();
    if (fb_is_deleting(greeting)) {
        FB_TRY(clean_up(greeting));
        return fb_done();
    }
    if (!fb_has_finalizer(greeting, FINALIZER)) {
        /* The update enqueues the key again. */
        FB_TRY(fb_run(fb_add_finalizer(GREETING, greeting, FINALIZER), NULL));
        return fb_done();
    }
    fb_condition ready = {0};
    FB_TRY(keep_config_map(greeting, &ready));
    FB_TRY(report(greeting, ready));
    return fb_done();
}

const fb_controller greeter = {.describe = describe, .reconcile = reconcile};
/* ANCHOR_END: reconcile */
