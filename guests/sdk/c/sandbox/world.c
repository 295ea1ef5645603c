/* The functions of the world in the sandbox, over the bindings that the build generates, and the exports. Texts and
 * documents of results are copied into the call's memory and released. */
#include <stdlib.h>
#include <string.h>

#include "controller.h"
#include "../internal.h"

typedef controller_string_t string;
typedef controller_list_u8_t bytes;
typedef controller_list_string_t strings;

static string lower(const char *text) {
    text = fb_or_empty(text);
    return (string){.ptr = (uint8_t *)text, .len = strlen(text)};
}

static char *lift(string text) {
    char *copy = fb_copy((const char *)text.ptr, text.len);
    controller_string_free(&text);
    return copy;
}

static strings lower_list(const char *const *texts) {
    size_t count = 0;
    while (texts != NULL && texts[count] != NULL)
        count++;
    strings list = {.ptr = fb_alloc(count * sizeof(string)), .len = count};
    for (size_t i = 0; i < count; i++)
        list.ptr[i] = lower(texts[i]);
    return list;
}

static bytes lower_document(const cJSON *value) {
    if (value == NULL)
        return (bytes){0};
    char *text = fb_print(value);
    return (bytes){.ptr = (uint8_t *)text, .len = strlen(text)};
}

static cJSON *lift_document(bytes document) {
    cJSON *value = document.len == 0 ? NULL : fb_parse_bytes((const char *)document.ptr, document.len);
    controller_list_u8_free(&document);
    return value;
}

static fb_error *lift_error(flyball_controller_types_error_t error) {
    char *reason = lift(error.reason), *message = lift(error.message);
    fb_error *made = fb_new_error(error.status, reason, message, (fb_effect)error.effect);
    made->retry_after_ms = error.retry_after_ms.is_some ? error.retry_after_ms.val : 0;
    return made;
}

static flyball_controller_lister_query_t lower_query(const fb_list *list) {
    size_t count = list->condition_count;
    flyball_controller_lister_list_condition_t conditions = {.ptr = fb_alloc(count * sizeof *conditions.ptr), .len = count};
    for (size_t i = 0; i < count; i++) {
        conditions.ptr[i].name = lower(list->conditions[i].name);
        conditions.ptr[i].value = lower(list->conditions[i].value);
    }
    return (flyball_controller_lister_query_t){lower(list->kind), lower(list->ns), conditions};
}

static flyball_controller_types_object_reference_t lower_reference(fb_reference object) {
    return (flyball_controller_types_object_reference_t){
        lower(object.kind), lower(object.ns), lower(object.name), lower(object.uid)};
}

const fb_error *fb_get(const char *kind, const char *ns, const char *name, cJSON **found) {
    string of_kind = lower(kind), of_ns = lower(ns), of_name = lower(name);
    strings fields = {0};
    controller_option_list_u8_t result;
    flyball_controller_types_error_t error;
    *found = NULL;
    if (!flyball_controller_lister_get(&of_kind, &of_ns, &of_name, &fields, &result, &error))
        return lift_error(error);
    if (result.is_some)
        *found = lift_document(result.val);
    return NULL;
}

void fb_load_page(fb_list *list) {
    flyball_controller_lister_page_t page;
    flyball_controller_types_error_t error;
    bool loaded;
    if (list->state == FB_LIST_NEW) {
        flyball_controller_lister_query_t query = lower_query(list);
        flyball_controller_lister_projection_t projection = {.tag = FLYBALL_CONTROLLER_LISTER_PROJECTION_ALL};
        if (list->fields != NULL) {
            projection.tag = list->rows ? FLYBALL_CONTROLLER_LISTER_PROJECTION_COLUMNS
                                        : FLYBALL_CONTROLLER_LISTER_PROJECTION_FIELDS;
            projection.val.fields = lower_list(list->fields);
        }
        loaded = flyball_controller_lister_list(&query, &projection, 0, &page, &error);
    } else {
        flyball_controller_lister_own_cursor_t rest = {list->cursor};
        loaded = flyball_controller_lister_next(rest, 0, &page, &error);
    }
    list->state = FB_LIST_LAST;
    if (!loaded) {
        list->error = lift_error(error);
        return;
    }
    cJSON *items = lift_document(page.items);
    list->item = items == NULL ? NULL : items->child;
    if (page.rest.is_some) {
        list->cursor = page.rest.val.__handle;
        list->state = FB_LIST_MORE;
    }
}

const fb_error *fb_count(const fb_list *list, uint32_t *count) {
    flyball_controller_lister_query_t query = lower_query(list);
    flyball_controller_types_error_t error;
    return flyball_controller_lister_count(&query, count, &error) ? NULL : lift_error(error);
}

bool fb_deletion_observed(fb_reference object) {
    flyball_controller_types_object_reference_t reference = lower_reference(object);
    return flyball_controller_lister_deletion_observed(&reference);
}

void fb_run_reads(const fb_read *reads, size_t count, fb_result *results) {
    flyball_controller_reader_own_batch_t own = flyball_controller_reader_constructor_batch();
    flyball_controller_reader_borrow_batch_t batch = flyball_controller_reader_borrow_batch(own);
    for (size_t i = 0; i < count; i++) {
        const fb_read *read = &reads[i];
        string kind = lower(read->kind), ns = lower(read->ns), name = lower(read->name), path = lower(read->path);
        strings fields = lower_list(read->fields);
        if (read->verb == FB_READ_GET) {
            flyball_controller_reader_method_batch_get(batch, &kind, &ns, &name, &fields);
        } else if (read->verb == FB_READ_RAW) {
            flyball_controller_reader_method_batch_raw(batch, &path);
        } else {
            size_t length = read->parameter_count;
            flyball_controller_reader_list_parameter_t all = {fb_alloc(length * sizeof *all.ptr), length};
            for (size_t j = 0; j < length; j++) {
                all.ptr[j].name = lower(read->parameters[j].name);
                all.ptr[j].value = lower(read->parameters[j].value);
            }
            flyball_controller_reader_method_batch_list(batch, &kind, &ns, &all, &fields);
        }
    }
    flyball_controller_reader_list_result_list_u8_error_t answers;
    flyball_controller_reader_method_batch_run(batch, &answers);
    for (size_t i = 0; i < count && i < answers.len; i++) {
        bool failed = answers.ptr[i].is_err;
        results[i].error = failed ? lift_error(answers.ptr[i].val.err) : NULL;
        results[i].document = failed ? NULL : lift_document(answers.ptr[i].val.ok);
    }
    free(answers.ptr);
    flyball_controller_reader_batch_drop_own(own);
}

static cJSON *lift_texts(strings texts) {
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; i < texts.len; i++)
        cJSON_AddItemToArray(array, cJSON_CreateString(fb_copy((const char *)texts.ptr[i].ptr, texts.ptr[i].len)));
    return array;
}

static char *copy(string text) {
    return fb_copy((const char *)text.ptr, text.len);
}

const fb_error *fb_kinds(cJSON **found) {
    flyball_controller_discovery_catalogue_t catalogue;
    flyball_controller_types_error_t error;
    if (!flyball_controller_discovery_kinds(&catalogue, &error))
        return lift_error(error);
    *found = cJSON_CreateObject();
    cJSON *kinds = cJSON_AddArrayToObject(*found, "kinds");
    for (size_t i = 0; i < catalogue.kinds.len; i++) {
        flyball_controller_discovery_served_kind_t *served = &catalogue.kinds.ptr[i];
        cJSON *kind = cJSON_CreateObject();
        cJSON_AddItemToArray(kinds, kind);
        fb_set_text(kind, "kind", copy(served->kind));
        fb_set_text(kind, "plural", copy(served->plural));
        cJSON_AddBoolToObject(kind, "namespaced", served->namespaced);
        cJSON_AddBoolToObject(kind, "preferred", served->preferred);
        cJSON_AddItemToObject(kind, "verbs", lift_texts(served->verbs));
        cJSON *subresources = cJSON_AddObjectToObject(kind, "subresources");
        for (size_t j = 0; j < served->subresources.len; j++)
            cJSON_AddItemToObject(subresources, copy(served->subresources.ptr[j].name),
                                  lift_texts(served->subresources.ptr[j].verbs));
    }
    cJSON *failures = cJSON_AddObjectToObject(*found, "failures");
    for (size_t i = 0; i < catalogue.failures.len; i++)
        cJSON_AddStringToObject(failures, copy(catalogue.failures.ptr[i].group_version),
                                copy(catalogue.failures.ptr[i].message));
    flyball_controller_discovery_catalogue_free(&catalogue);
    return NULL;
}

static void add_write(flyball_controller_writer_borrow_batch_t batch, const fb_write *write) {
    flyball_controller_writer_target_t target = {
        lower(write->kind), lower(write->ns), lower(write->name), lower(write->subresource)};
    bytes body = lower_document(write->body), options = lower_document(write->options);
    bytes metadata = lower_document(write->metadata);
    strings returns = lower_list(write->returns);
    string version = lower(write->resource_version), patch_type = lower(write->patch_type);
    string labels = lower(write->label_selector), fields = lower(write->field_selector);
    switch (write->verb) {
    case FB_CREATE:
        flyball_controller_writer_method_batch_create(batch, &target, &body, &options, &returns);
        break;
    case FB_UPDATE:
        flyball_controller_writer_method_batch_update(batch, &target, &version, &body, &options, &returns);
        break;
    case FB_UPDATE_STATUS:
        flyball_controller_writer_method_batch_update_status(batch, &target, &version, &body, &metadata, &options, &returns);
        break;
    case FB_PATCH:
        flyball_controller_writer_method_batch_patch(batch, &target, &patch_type, &body, &options, &returns);
        break;
    case FB_DELETE:
        flyball_controller_writer_method_batch_delete(batch, &target, &options, &returns);
        break;
    case FB_DELETE_COLLECTION:
        flyball_controller_writer_method_batch_delete_collection(batch, &target, &labels, &fields, &options, &returns);
        break;
    }
}

void fb_run_writes(const fb_write *writes, size_t count, uint32_t slow_start, bool stop_on_error, fb_result *results) {
    flyball_controller_writer_own_batch_t own = flyball_controller_writer_constructor_batch();
    flyball_controller_writer_borrow_batch_t batch = flyball_controller_writer_borrow_batch(own);
    for (size_t i = 0; i < count; i++)
        add_write(batch, &writes[i]);
    if (slow_start > 0)
        flyball_controller_writer_method_batch_slow_start(batch, slow_start);
    if (stop_on_error)
        flyball_controller_writer_method_batch_stop_on_error(batch);
    flyball_controller_writer_list_result_list_u8_error_t answers;
    flyball_controller_writer_method_batch_run(batch, &answers);
    for (size_t i = 0; i < count && i < answers.len; i++) {
        bool failed = answers.ptr[i].is_err;
        results[i].error = failed ? lift_error(answers.ptr[i].val.err) : NULL;
        results[i].document = failed ? NULL : lift_document(answers.ptr[i].val.ok);
    }
    free(answers.ptr);
    flyball_controller_writer_batch_drop_own(own);
}

void fb_events_emit(fb_reference about, const char *type, const char *reason, const char *message, const cJSON *options) {
    flyball_controller_types_object_reference_t reference = lower_reference(about);
    string of_type = lower(type), of_reason = lower(reason), text = lower(message);
    bytes document = lower_document(options);
    flyball_controller_events_emit(&reference, &of_type, &of_reason, &text, &document);
}

const fb_error *fb_queue_add(const char *queue, const char *key) {
    string of_queue = lower(queue), text = lower(key);
    flyball_controller_types_error_t error;
    return flyball_controller_queue_add(&of_queue, &text, &error) ? NULL : lift_error(error);
}

const fb_error *fb_queue_add_after(const char *queue, const char *key, uint32_t delay_ms) {
    string of_queue = lower(queue), text = lower(key);
    flyball_controller_types_error_t error;
    return flyball_controller_queue_add_after(&of_queue, &text, delay_ms, &error) ? NULL : lift_error(error);
}

const fb_error *fb_queue_forget(const char *queue, const char *key) {
    string of_queue = lower(queue), text = lower(key);
    flyball_controller_types_error_t error;
    return flyball_controller_queue_forget(&of_queue, &text, &error) ? NULL : lift_error(error);
}

const fb_error *fb_queue_requeues(const char *queue, const char *key, uint32_t *count) {
    string of_queue = lower(queue), text = lower(key);
    flyball_controller_types_error_t error;
    return flyball_controller_queue_requeues(&of_queue, &text, count, &error) ? NULL : lift_error(error);
}

fb_time fb_now(void) {
    flyball_controller_types_time_t now;
    flyball_controller_clock_now(&now);
    return (fb_time){.seconds = now.seconds, .nanoseconds = now.nanoseconds};
}

void fb_random(void *memory, size_t count) {
    bytes random;
    flyball_controller_random_bytes((uint32_t)count, &random);
    memcpy(memory, random.ptr, random.len < count ? random.len : count);
    controller_list_u8_free(&random);
}

bool fb_log_enabled(fb_level level) {
    return flyball_controller_log_enabled((flyball_controller_log_level_t)level);
}

void fb_log_fields(fb_level level, const char *message, const fb_condition_of_list *fields, size_t count) {
    string text = lower(message);
    flyball_controller_log_list_field_t all = {fb_alloc(count * sizeof *all.ptr), count};
    for (size_t i = 0; i < count; i++) {
        all.ptr[i].name = lower(fields[i].name);
        all.ptr[i].value = lower(fields[i].value);
    }
    flyball_controller_log_write((flyball_controller_log_level_t)level, &text, &all);
}

void fb_metric(const char *operation, const char *name, double value, const char *const *labels, size_t count) {
    string text = lower(name);
    strings all = {.ptr = fb_alloc(count * sizeof(string)), .len = count};
    for (size_t i = 0; i < count; i++)
        all.ptr[i] = lower(labels[i]);
    if (strcmp(operation, "add") == 0)
        flyball_controller_metrics_add(&text, &all, value);
    else if (strcmp(operation, "set") == 0)
        flyball_controller_metrics_set(&text, &all, value);
    else
        flyball_controller_metrics_observe(&text, &all, value);
}

const char *fb_config(const char *key) {
    string text = lower(key), value;
    return flyball_controller_config_get(&text, &value) ? lift(value) : NULL;
}

cJSON *fb_memo_get(const char *key, uint32_t *version) {
    string text = lower(key);
    flyball_controller_memo_entry_t entry;
    bool found = flyball_controller_memo_get(&text, &entry);
    if (version != NULL)
        *version = found ? entry.version : 0;
    return found ? lift_document(entry.value) : NULL;
}

const fb_error *fb_memo_put(const char *key, uint32_t expected, const cJSON *value, const char *object_uid, uint32_t ttl_ms) {
    string text = lower(key), uid = lower(object_uid);
    bytes document = lower_document(value);
    uint32_t version;
    flyball_controller_types_error_t error;
    bool put = flyball_controller_memo_put(&text, expected, &document, &uid, ttl_ms, &version, &error);
    return put ? NULL : lift_error(error);
}

void fb_memo_remove(const char *key) {
    string text = lower(key);
    flyball_controller_memo_remove(&text);
}

const fb_error *fb_sign_jwt(const char *key, const cJSON *claims, char **token) {
    string text = lower(key), signed_token;
    bytes document = lower_document(claims);
    flyball_controller_types_error_t error;
    if (!flyball_controller_signer_sign_jwt(&text, &document, &signed_token, &error))
        return lift_error(error);
    *token = lift(signed_token);
    return NULL;
}

const fb_error *fb_verify_jwt(const char *key, const char *token, cJSON **claims) {
    string text = lower(key), of_token = lower(token);
    bytes document;
    flyball_controller_types_error_t error;
    if (!flyball_controller_signer_verify_jwt(&text, &of_token, &document, &error))
        return lift_error(error);
    *claims = lift_document(document);
    return NULL;
}

static fb_bytes lift_bytes(bytes data) {
    return (fb_bytes){.bytes = (uint8_t *)fb_copy((const char *)data.ptr, data.len), .length = data.len};
}

const fb_error *fb_certificate_authority(const char *signer, fb_bytes **certificates, size_t *count) {
    string text = lower(signer);
    controller_list_list_u8_t found;
    flyball_controller_types_error_t error;
    if (!flyball_controller_signer_certificate_authority(&text, &found, &error))
        return lift_error(error);
    *count = found.len;
    *certificates = fb_alloc(found.len * sizeof **certificates);
    for (size_t i = 0; i < found.len; i++)
        (*certificates)[i] = lift_bytes(found.ptr[i]);
    controller_list_list_u8_free(&found);
    return NULL;
}

const fb_error *fb_sign_certificate(const char *signer, const fb_certificate_template *template, fb_bytes *certificate) {
    bool requested = template->request.length > 0;
    fb_bytes key = requested ? template->request : template->public_key;
    size_t names = template->subject_count;
    flyball_controller_signer_list_list_attribute_t subject = {fb_alloc(names * sizeof *subject.ptr), names};
    for (size_t i = 0; i < names; i++) {
        flyball_controller_signer_attribute_t *attribute = fb_alloc(sizeof *attribute);
        *attribute = (flyball_controller_signer_attribute_t){
            lower(template->subject[i].name), lower(template->subject[i].value)};
        subject.ptr[i] = (flyball_controller_signer_list_attribute_t){attribute, 1};
    }
    flyball_controller_signer_certificate_template_t lowered = {
        .key = {.tag = requested ? FLYBALL_CONTROLLER_SIGNER_SUBJECT_KEY_REQUEST
                                 : FLYBALL_CONTROLLER_SIGNER_SUBJECT_KEY_PUBLIC_KEY,
                .val.public_key = {key.bytes, key.length}},
        .subject = subject,
        .dns_names = lower_list(template->dns_names),
        .email_addresses = lower_list(template->email_addresses),
        .ip_addresses = lower_list(template->ip_addresses),
        .uris = lower_list(template->uris),
        .key_usages = template->key_usages,
        .extended_key_usages = lower_list(template->extended_key_usages),
        .not_before = {template->not_before.seconds, template->not_before.nanoseconds},
        .not_after = {template->not_after.seconds, template->not_after.nanoseconds},
    };
    string text = lower(signer);
    bytes signed_certificate;
    flyball_controller_types_error_t error;
    if (!flyball_controller_signer_sign_certificate(&text, &lowered, &signed_certificate, &error))
        return lift_error(error);
    *certificate = lift_bytes(signed_certificate);
    controller_list_u8_free(&signed_certificate);
    return NULL;
}
