/* The functions of the world in tests: each is a call to the process that holds the cluster. */
#include <string.h>

#include "server.h"

/* Creates the arguments of a call with a first one. The caller adds the others. */
static cJSON *arguments_of(const char *name, const char *value) {
    cJSON *arguments = cJSON_CreateObject();
    cJSON_AddStringToObject(arguments, name, fb_or_empty(value));
    return arguments;
}

static cJSON *add_text(cJSON *arguments, const char *name, const char *value) {
    cJSON_AddStringToObject(arguments, name, fb_or_empty(value));
    return arguments;
}

/* Adds a copy of a document; null if there is none. */
static void add_document(cJSON *arguments, const char *name, const cJSON *document) {
    cJSON_AddItemToObject(arguments, name, document == NULL ? cJSON_CreateNull() : cJSON_Duplicate(document, true));
}

/* Adds texts that end with NULL. */
static void add_texts(cJSON *arguments, const char *name, const char *const *texts) {
    cJSON *list = cJSON_AddArrayToObject(arguments, name);
    for (; texts != NULL && *texts != NULL; texts++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*texts));
}

static cJSON *pair_of(fb_condition_of_list pair) {
    const char *texts[] = {fb_or_empty(pair.name), fb_or_empty(pair.value)};
    return cJSON_CreateStringArray(texts, 2);
}

static void add_pairs(cJSON *arguments, const char *name, const fb_condition_of_list *pairs, size_t count) {
    cJSON *list = cJSON_AddArrayToObject(arguments, name);
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, pair_of(pairs[i]));
}

static void add_reference(cJSON *arguments, const char *name, fb_reference object) {
    cJSON *reference = cJSON_AddObjectToObject(arguments, name);
    add_text(reference, "kind", object.kind);
    add_text(reference, "namespace", object.ns);
    add_text(reference, "name", object.name);
    add_text(reference, "uid", object.uid);
}

/* Returns a value; NULL for null. */
static cJSON *present(cJSON *value) {
    return cJSON_IsNull(value) ? NULL : value;
}

const fb_error *fb_get(const char *kind, const char *ns, const char *name, cJSON **found) {
    cJSON *arguments = arguments_of("kind", kind);
    add_text(arguments, "namespace", ns);
    add_text(arguments, "name", name);
    add_texts(arguments, "fields", NULL);
    const fb_error *error = server_call("lister.get", arguments, found);
    *found = present(*found);
    return error;
}

static void add_query(cJSON *arguments, const fb_list *list) {
    cJSON *query = cJSON_AddObjectToObject(arguments, "query");
    add_text(query, "kind", list->kind);
    add_text(query, "namespace", list->ns);
    add_pairs(query, "conditions", list->conditions, list->condition_count);
}

void fb_load_page(fb_list *list) {
    cJSON *arguments = cJSON_CreateObject(), *page;
    cJSON_AddNumberToObject(arguments, "limit", 0);
    if (list->state == FB_LIST_MORE) {
        cJSON_AddNumberToObject(arguments, "rest", list->cursor);
    } else {
        add_query(arguments, list);
        if (list->fields == NULL)
            add_text(arguments, "projection", "all");
        else
            add_texts(cJSON_AddObjectToObject(arguments, "projection"), list->rows ? "columns" : "fields", list->fields);
    }
    list->error = server_call(list->state == FB_LIST_MORE ? "lister.next" : "lister.list", arguments, &page);
    list->state = FB_LIST_LAST;
    if (list->error != NULL)
        return;
    list->item = fb_at(page, "items")->child;
    if (present(fb_at(page, "rest")) != NULL) {
        list->cursor = (int32_t)fb_number(page, "rest");
        list->state = FB_LIST_MORE;
    }
}

const fb_error *fb_count(const fb_list *list, uint32_t *count) {
    cJSON *arguments = cJSON_CreateObject(), *found;
    add_query(arguments, list);
    const fb_error *error = server_call("lister.count", arguments, &found);
    *count = error == NULL ? (uint32_t)found->valuedouble : 0;
    return error;
}

bool fb_deletion_observed(fb_reference object) {
    cJSON *arguments = cJSON_CreateObject(), *observed;
    add_reference(arguments, "object", object);
    server_call("lister.deletion-observed", arguments, &observed);
    return cJSON_IsTrue(observed);
}

/* Runs a batch, and sets its results. */
static void run(const char *call, cJSON *arguments, size_t count, fb_result *results) {
    cJSON *replies;
    server_call(call, arguments, &replies);
    const cJSON *reply = replies->child;
    for (size_t i = 0; i < count && reply != NULL; i++, reply = reply->next) {
        results[i].error = server_error(reply);
        results[i].document = present(fb_at(reply, "ok"));
    }
}

static cJSON *lower_read(const fb_read *read) {
    if (read->verb == FB_READ_RAW)
        return add_text(arguments_of("verb", "raw"), "path", read->path);
    cJSON *lowered = arguments_of("verb", read->verb == FB_READ_GET ? "get" : "list");
    add_text(lowered, "kind", read->kind);
    add_text(lowered, "namespace", read->ns);
    add_texts(lowered, "fields", read->fields);
    if (read->verb == FB_READ_GET)
        add_text(lowered, "name", read->name);
    else
        add_pairs(lowered, "parameters", read->parameters, read->parameter_count);
    return lowered;
}

void fb_run_reads(const fb_read *reads, size_t count, fb_result *results) {
    cJSON *arguments = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(arguments, "reads");
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, lower_read(&reads[i]));
    run("reader.run", arguments, count, results);
}

/* Turns a list of pairs into an object. */
static void name_pairs(cJSON *parent, const char *name) {
    cJSON *named = cJSON_CreateObject(), *pair;
    cJSON_ArrayForEach(pair, fb_at(parent, name))
        cJSON_AddItemToObject(named, pair->child->valuestring, cJSON_Duplicate(pair->child->next, true));
    cJSON_ReplaceItemInObjectCaseSensitive(parent, name, named);
}

const fb_error *fb_kinds(cJSON **found) {
    const fb_error *error = server_call("discovery.kinds", NULL, found);
    cJSON *kind;
    cJSON_ArrayForEach(kind, fb_at(*found, "kinds")) name_pairs(kind, "subresources");
    if (error == NULL)
        name_pairs(*found, "failures");
    return error;
}

static cJSON *lower_write(const fb_write *write) {
    static const char *const VERBS[] = {"create", "update", "update-status", "patch", "delete", "delete-collection"};
    cJSON *lowered = arguments_of("verb", VERBS[write->verb]);
    add_text(lowered, "kind", write->kind);
    add_text(lowered, "namespace", write->ns);
    add_text(lowered, "name", write->name);
    add_text(lowered, "subresource", write->subresource);
    add_text(lowered, "resourceVersion", write->resource_version);
    add_text(lowered, "patchType", write->patch_type);
    add_text(lowered, "labelSelector", write->label_selector);
    add_text(lowered, "fieldSelector", write->field_selector);
    add_document(lowered, "body", write->body);
    add_document(lowered, "metadata", write->metadata);
    add_document(lowered, "options", write->options);
    add_texts(lowered, "returns", write->returns);
    return lowered;
}

void fb_run_writes(const fb_write *writes, size_t count, uint32_t slow_start, bool stop_on_error, fb_result *results) {
    cJSON *arguments = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(arguments, "writes");
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, lower_write(&writes[i]));
    cJSON_AddNumberToObject(arguments, "slowStart", slow_start);
    cJSON_AddBoolToObject(arguments, "stopOnError", stop_on_error);
    run("writer.run", arguments, count, results);
}

void fb_events_emit(fb_reference about, const char *type, const char *reason, const char *message, const cJSON *options) {
    cJSON *arguments = arguments_of("type", type);
    add_reference(arguments, "about", about);
    add_text(arguments, "reason", reason);
    add_text(arguments, "message", message);
    add_document(arguments, "options", options);
    server_call("events.emit", arguments, NULL);
}

const fb_error *fb_queue_add(const char *queue, const char *key) {
    return fb_queue_add_after(queue, key, 0);
}

const fb_error *fb_queue_add_after(const char *queue, const char *key, uint32_t delay_ms) {
    cJSON *arguments = add_text(arguments_of("queue", queue), "key", key);
    cJSON_AddNumberToObject(arguments, "delayMs", delay_ms);
    return server_call("queue.add", arguments, NULL);
}

const fb_error *fb_queue_forget(const char *queue, const char *key) {
    return server_call("queue.forget", add_text(arguments_of("queue", queue), "key", key), NULL);
}

const fb_error *fb_queue_requeues(const char *queue, const char *key, uint32_t *count) {
    cJSON *found;
    const fb_error *error = server_call("queue.requeues", add_text(arguments_of("queue", queue), "key", key), &found);
    *count = error == NULL ? (uint32_t)found->valuedouble : 0;
    return error;
}

fb_time fb_now(void) {
    cJSON *now;
    server_call("clock.now", NULL, &now);
    return (fb_time){.seconds = (uint32_t)fb_number(now, "seconds"), .nanoseconds = (uint32_t)fb_number(now, "nanoseconds")};
}

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *encode(const uint8_t *bytes, size_t length) {
    char *text = fb_alloc((length + 2) / 3 * 4 + 1), *end = text;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? bytes[i + 1] : 0) << 8 | (left > 2 ? bytes[i + 2] : 0);
        *end++ = BASE64[group >> 18];
        *end++ = BASE64[group >> 12 & 63];
        *end++ = left > 1 ? BASE64[group >> 6 & 63] : '=';
        *end++ = left > 2 ? BASE64[group & 63] : '=';
    }
    return text;
}

static fb_bytes decode(const char *text) {
    fb_bytes decoded = {.bytes = fb_alloc(strlen(text) / 4 * 3 + 1)};
    uint32_t group = 0;
    for (size_t i = 0; text[i] != '\0' && text[i] != '='; i++) {
        group = group << 6 | (uint32_t)(strchr(BASE64, text[i]) - BASE64);
        if (i % 4 > 0)
            decoded.bytes[decoded.length++] = (uint8_t)(group >> (6 - i % 4 * 2));
    }
    return decoded;
}

void fb_random(void *memory, size_t count) {
    cJSON *arguments = cJSON_CreateObject(), *random;
    cJSON_AddNumberToObject(arguments, "count", (double)count);
    server_call("random.bytes", arguments, &random);
    memcpy(memory, decode(random->valuestring).bytes, count);
}

bool fb_log_enabled(fb_level level) {
    (void)level;
    return true;
}

void fb_log_fields(fb_level level, const char *message, const fb_condition_of_list *fields, size_t count) {
    static const char *const LEVELS[] = {"trace", "debug", "info", "warn", "error"};
    cJSON *arguments = add_text(arguments_of("level", LEVELS[level]), "message", message);
    add_pairs(arguments, "fields", fields, count);
    server_call("log.write", arguments, NULL);
}

void fb_metric(const char *operation, const char *name, double value, const char *const *labels, size_t count) {
    cJSON *arguments = add_text(arguments_of("operation", operation), "name", name);
    cJSON_AddItemToObject(arguments, "labels", cJSON_CreateStringArray(labels, (int)count));
    cJSON_AddNumberToObject(arguments, "value", value);
    server_call("metrics.record", arguments, NULL);
}

const char *fb_config(const char *key) {
    cJSON *value;
    server_call("config.get", arguments_of("key", key), &value);
    return cJSON_GetStringValue(value);
}

cJSON *fb_memo_get(const char *key, uint32_t *version) {
    cJSON *entry;
    server_call("memo.get", arguments_of("key", key), &entry);
    if (version != NULL)
        *version = (uint32_t)fb_number(entry, "version");
    if (cJSON_IsNull(entry))
        return NULL;
    fb_bytes value = decode(fb_text(entry, "value"));
    return fb_parse_bytes((const char *)value.bytes, value.length);
}

const fb_error *fb_memo_put(const char *key, uint32_t expected, const cJSON *value, const char *object_uid, uint32_t ttl_ms) {
    const char *text = fb_print(value);
    cJSON *arguments = add_text(arguments_of("key", key), "value", encode((const uint8_t *)text, strlen(text)));
    add_text(arguments, "objectUid", object_uid);
    cJSON_AddNumberToObject(arguments, "expected", expected);
    cJSON_AddNumberToObject(arguments, "ttlMs", ttl_ms);
    return server_call("memo.put", arguments, NULL);
}

void fb_memo_remove(const char *key) {
    server_call("memo.remove", arguments_of("key", key), NULL);
}

const fb_error *fb_sign_jwt(const char *key, const cJSON *claims, char **token) {
    cJSON *arguments = arguments_of("key", key), *found;
    add_document(arguments, "claims", claims);
    const fb_error *error = server_call("signer.sign-jwt", arguments, &found);
    *token = cJSON_GetStringValue(found);
    return error;
}

const fb_error *fb_verify_jwt(const char *key, const char *token, cJSON **claims) {
    return server_call("signer.verify-jwt", add_text(arguments_of("key", key), "token", token), claims);
}

const fb_error *fb_certificate_authority(const char *signer, fb_bytes **certificates, size_t *count) {
    cJSON *found;
    const fb_error *error = server_call("signer.certificate-authority", arguments_of("signer", signer), &found);
    *count = error == NULL ? (size_t)cJSON_GetArraySize(found) : 0;
    *certificates = fb_alloc(*count * sizeof **certificates);
    for (size_t i = 0; i < *count; i++)
        (*certificates)[i] = decode(cJSON_GetArrayItem(found, (int)i)->valuestring);
    return error;
}

static void add_time(cJSON *arguments, const char *name, fb_time time) {
    cJSON *instant = cJSON_AddObjectToObject(arguments, name);
    cJSON_AddNumberToObject(instant, "seconds", time.seconds);
    cJSON_AddNumberToObject(instant, "nanoseconds", time.nanoseconds);
}

const fb_error *fb_sign_certificate(const char *signer, const fb_certificate_template *template, fb_bytes *certificate) {
    bool requested = template->request.length > 0;
    fb_bytes key = requested ? template->request : template->public_key;
    cJSON *arguments = arguments_of("signer", signer), *lowered = cJSON_AddObjectToObject(arguments, "template");
    add_text(cJSON_AddObjectToObject(lowered, "key"), requested ? "request" : "publicKey", encode(key.bytes, key.length));
    cJSON *subject = cJSON_AddArrayToObject(lowered, "subject");
    for (size_t i = 0; i < template->subject_count; i++) {
        cJSON *names = cJSON_CreateArray();
        cJSON_AddItemToArray(names, pair_of(template->subject[i]));
        cJSON_AddItemToArray(subject, names);
    }
    add_texts(lowered, "dnsNames", template->dns_names);
    add_texts(lowered, "emailAddresses", template->email_addresses);
    add_texts(lowered, "ipAddresses", template->ip_addresses);
    add_texts(lowered, "uris", template->uris);
    cJSON_AddNumberToObject(lowered, "keyUsages", template->key_usages);
    add_texts(lowered, "extendedKeyUsages", template->extended_key_usages);
    add_time(lowered, "notBefore", template->not_before);
    add_time(lowered, "notAfter", template->not_after);
    cJSON *found;
    const fb_error *error = server_call("signer.sign-certificate", arguments, &found);
    *certificate = error == NULL ? decode(found->valuestring) : (fb_bytes){0};
    return error;
}
