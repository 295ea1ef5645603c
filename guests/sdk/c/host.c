/* Reads, writes and other functions that are built on the functions of the world. */
#include <string.h>

#include "internal.h"

cJSON *fb_next(fb_list *list) {
    if (list->error != NULL)
        return NULL;
    if (list->item != NULL)
        list->item = list->item->next;
    while (list->item == NULL && list->state != FB_LIST_LAST && list->error == NULL)
        fb_load_page(list);
    return list->error == NULL ? list->item : NULL;
}

fb_reference fb_reference_to(const char *kind, const cJSON *object) {
    fb_key key = fb_key_of(object);
    return (fb_reference){.kind = kind, .ns = key.ns, .name = key.name, .uid = fb_text(object, "metadata.uid")};
}

const fb_error *fb_live_get(const char *kind, const char *ns, const char *name, cJSON **found) {
    fb_read read = {.verb = FB_READ_GET, .kind = kind, .ns = ns, .name = name};
    fb_result result = {0};
    fb_run_reads(&read, 1, &result);
    *found = result.document;
    return fb_is_not_found(result.error) ? NULL : result.error;
}

const fb_error *fb_live_list(const char *kind, const char *ns, const char *label_selector, cJSON **found) {
    *found = cJSON_CreateArray();
    const char *token = "";
    do {
        fb_condition_of_list parameters[3] = {{"limit", "500"}};
        size_t count = 1;
        if (*fb_or_empty(label_selector))
            parameters[count++] = (fb_condition_of_list){"labelSelector", label_selector};
        if (*token)
            parameters[count++] = (fb_condition_of_list){"continue", token};
        fb_read read = {
            .verb = FB_READ_LIST, .kind = kind, .ns = ns, .parameters = parameters, .parameter_count = count};
        fb_result result = {0};
        fb_run_reads(&read, 1, &result);
        if (result.error != NULL)
            return result.error;
        for (cJSON *items = fb_at(result.document, "items"); items != NULL && items->child != NULL;)
            cJSON_AddItemToArray(*found, cJSON_DetachItemViaPointer(items, items->child));
        token = fb_text(result.document, "metadata.continue");
    } while (*token);
    return NULL;
}

const fb_error *fb_raw(const char *path, cJSON **found) {
    fb_read read = {.verb = FB_READ_RAW, .path = path};
    fb_result result = {0};
    fb_run_reads(&read, 1, &result);
    *found = result.document;
    return result.error;
}

fb_write fb_create(const char *kind, const char *ns, const cJSON *object) {
    return (fb_write){.verb = FB_CREATE, .kind = kind, .ns = ns, .body = object};
}

fb_write fb_create_on(const char *kind, fb_key key, const char *subresource, const cJSON *body) {
    return (fb_write){
        .verb = FB_CREATE, .kind = kind, .ns = key.ns, .name = key.name, .subresource = subresource, .body = body};
}

static fb_write based(fb_verb verb, const char *kind, const cJSON *object, const cJSON *body) {
    fb_key key = fb_key_of(object);
    const char *version = fb_text(object, "metadata.resourceVersion");
    return (fb_write){
        .verb = verb, .kind = kind, .ns = key.ns, .name = key.name, .resource_version = version, .body = body};
}

fb_write fb_update(const char *kind, const cJSON *object, const cJSON *change) {
    return based(FB_UPDATE, kind, object, change);
}

fb_write fb_update_status(const char *kind, const cJSON *object, const cJSON *status) {
    return based(FB_UPDATE_STATUS, kind, object, status);
}

fb_write fb_patch(const char *kind, fb_key key, const char *patch_type, const cJSON *patch) {
    return (fb_write){
        .verb = FB_PATCH, .kind = kind, .ns = key.ns, .name = key.name, .patch_type = patch_type, .body = patch};
}

fb_write fb_apply(const char *kind, const cJSON *object, const char *field_manager, bool force) {
    cJSON *body = cJSON_Duplicate(object, true);
    const char *slash = strrchr(kind, '/');
    if (slash != NULL) {
        fb_set_text(body, "apiVersion", fb_copy(kind, (size_t)(slash - kind)));
        fb_set_text(body, "kind", slash + 1);
    }
    fb_write write = fb_patch(kind, fb_key_of(object), "apply", body);
    write.options = cJSON_CreateObject();
    fb_set_text(write.options, "fieldManager", field_manager);
    if (force)
        cJSON_AddTrueToObject(write.options, "force");
    return write;
}

fb_write fb_delete(const char *kind, const cJSON *object) {
    fb_write write = fb_delete_name(kind, fb_key_of(object));
    write.options = cJSON_CreateObject();
    fb_set_text(write.options, "preconditions.uid", fb_text(object, "metadata.uid"));
    return write;
}

fb_write fb_delete_name(const char *kind, fb_key key) {
    return (fb_write){.verb = FB_DELETE, .kind = kind, .ns = key.ns, .name = key.name};
}

fb_write fb_delete_collection(const char *kind, const char *ns, const char *labels, const char *fields) {
    return (fb_write){
        .verb = FB_DELETE_COLLECTION, .kind = kind, .ns = ns, .label_selector = labels, .field_selector = fields};
}

const fb_error *fb_run(fb_write write, cJSON **answer) {
    fb_result result = {0};
    fb_run_writes(&write, 1, 0, false, &result);
    if (answer != NULL)
        *answer = result.document;
    return result.error;
}

void fb_emit(const char *kind, const cJSON *about, const char *type, const char *reason, const char *message, cJSON *options) {
    if (options == NULL)
        options = cJSON_CreateObject();
    const char *version = fb_text(about, "metadata.resourceVersion");
    if (*version)
        fb_set_text(options, "resourceVersion", version);
    fb_events_emit(fb_reference_to(kind, about), type, reason, message, options);
}

void fb_log(fb_level level, const char *format, ...) {
    if (!fb_log_enabled(level))
        return;
    va_list arguments;
    va_start(arguments, format);
    fb_log_fields(level, fb_vformat(format, arguments), NULL, 0);
    va_end(arguments);
}

char *fb_rfc3339(fb_time time) {
    /* Converts days since 1970 into a civil date, by Howard Hinnant's chrono algorithms. */
    uint32_t days = time.seconds / 86400 + 719468, second = time.seconds % 86400;
    uint32_t era = days / 146097, day_of_era = days % 146097;
    uint32_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t part = (5 * day_of_year + 2) / 153;
    uint32_t day = day_of_year - (153 * part + 2) / 5 + 1, month = part < 10 ? part + 3 : part - 9;
    uint32_t year = year_of_era + era * 400 + (month <= 2);
    return fb_format("%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned)year, (unsigned)month, (unsigned)day,
                     (unsigned)(second / 3600), (unsigned)(second / 60 % 60), (unsigned)(second % 60));
}

/* More labels than any metric has. */
enum { MOST_LABELS = 16 };

static void metric(const char *operation, const char *name, double value, va_list labels) {
    const char *all[MOST_LABELS];
    size_t count = 0;
    for (const char *label; (label = va_arg(labels, const char *)) != NULL && count < MOST_LABELS;)
        all[count++] = label;
    fb_metric(operation, name, value, all, count);
}

void fb_metric_add(const char *name, double value, ...) {
    va_list labels;
    va_start(labels, value);
    metric("add", name, value, labels);
    va_end(labels);
}

void fb_metric_set(const char *name, double value, ...) {
    va_list labels;
    va_start(labels, value);
    metric("set", name, value, labels);
    va_end(labels);
}

void fb_metric_observe(const char *name, double value, ...) {
    va_list labels;
    va_start(labels, value);
    metric("observe", name, value, labels);
    va_end(labels);
}
