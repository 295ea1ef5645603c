/* Flyball's SDK for C: the functions that a controller calls, and the controller that it exports.
 *
 * Objects are trees of cJSON. All memory of a call, such as objects, texts and errors, is the SDK's and is released
 * when the call returns: a controller frees nothing, and keeps nothing between calls. A function that can fail returns
 * an error, or NULL if it succeeded. Texts that are absent are NULL or empty; the SDK takes both. */
#ifndef FLYBALL_H
#define FLYBALL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vendor/cJSON.h"

#ifdef __GNUC__
#define FB_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define FB_SENTINEL __attribute__((sentinel))
#else
#define FB_PRINTF(text, first)
#define FB_SENTINEL
#endif

/* Memory of the call. */

/* Returns zeroed memory that lasts until the call returns. Never returns NULL: the instance ends if there is no memory
 * left. */
void *fb_alloc(size_t size);
/* Returns a copy of a text. */
char *fb_copy(const char *text, size_t length);
/* Returns a formatted text. */
char *fb_format(const char *format, ...) FB_PRINTF(1, 2);

/* Errors. */

/* The possible effects of a failed call. */
typedef enum { FB_EFFECT_NONE, FB_EFFECT_REFUSED, FB_EFFECT_UNKNOWN } fb_effect;

/* The error of a call: the API server's answer, or the host's. */
typedef struct {
    int status;          /* The HTTP status, never 0. */
    const char *reason;  /* The API's reason, such as `NotFound`, or one of the host's, such as `Denied`. */
    const char *message; /* A sentence for people. */
    fb_effect effect;
    uint32_t retry_after_ms; /* How long the server asks to wait; 0 if it does not. */
} fb_error;

/* Whether an error has this reason. False for NULL. */
bool fb_is(const fb_error *error, const char *reason);
#define fb_is_not_found(error) fb_is(error, "NotFound")
#define fb_is_already_exists(error) fb_is(error, "AlreadyExists")
#define fb_is_conflict(error) fb_is(error, "Conflict")
#define fb_is_denied(error) fb_is(error, "Denied")
#define fb_is_forbidden(error) fb_is(error, "Forbidden")
#define fb_is_unknown_kind(error) fb_is(error, "UnknownKind")
#define fb_is_namespace_terminating(error) fb_is(error, "NamespaceTerminating")

/* The controller. */

/* Names an object: `namespace/name`, or `name` if the object is cluster-scoped. */
typedef struct {
    const char *ns;   /* Empty if the object is cluster-scoped. */
    const char *name; /* The name; or the whole key if it names no object. */
} fb_key;

/* Returns a key as text. */
char *fb_key_text(fb_key key);
/* Parses a key. Every text is valid: without a slash it is only a name. */
fb_key fb_key_parse(const char *text);

/* A key to reconcile. */
typedef struct {
    const char *queue;
    fb_key key;
    uint32_t attempt; /* Failures of this key since it last succeeded. */
} fb_request;

typedef enum { FB_DONE, FB_REQUEUE_AFTER, FB_FAILED, FB_TERMINAL } fb_outcome_kind;

/* How a reconcile ended. */
typedef struct {
    fb_outcome_kind kind;
    uint32_t after_ms;
    const char *message;
} fb_outcome;

/* Nothing more to do. Resets the key's backoff. */
fb_outcome fb_done(void);
/* Does the same as fb_done, and reconciles the key again after this time. */
fb_outcome fb_requeue_after(uint32_t milliseconds);
/* The key is retried with backoff. */
fb_outcome fb_failed(const char *format, ...) FB_PRINTF(1, 2);
/* The key is retried with backoff. The message is the error's. */
fb_outcome fb_failed_by(const fb_error *error);
/* No retry can help. The failure is reported, and the key is not retried until something changes. */
fb_outcome fb_terminal(const char *format, ...) FB_PRINTF(1, 2);

/* Ends a reconcile if a call fails. */
#define FB_TRY(call)                                \
    do {                                            \
        const fb_error *fb_tried = (call);          \
        if (fb_tried != NULL)                       \
            return fb_failed_by(fb_tried);          \
    } while (0)

/* A change of an object. */
typedef struct {
    const char *watch;      /* The watch's kind; for a discovery watch, the object's kind. */
    const char *delta_type; /* `added`, `modified` or `deleted`. */
    cJSON *before;          /* NULL if the object was added. */
    cJSON *after;           /* NULL if the object was deleted. */
    bool initial;           /* Whether the delta belongs to the initial list of the watch. */
} fb_delta;

/* A key that `route` enqueues. */
typedef struct {
    const char *queue; /* The primary one if empty. */
    const char *key;
    uint32_t delay_ms;
} fb_routed_key;

/* A controller. Its functions must not depend on state between calls. */
typedef struct {
    /* Returns the description, by fb_describe. */
    cJSON *(*describe)(void);
    fb_outcome (*reconcile)(const fb_request *request);
    /* Turns deltas into keys, for watches that map to fb_routed. Adds keys with fb_route_to. Returns NULL, or why it
     * failed. May be NULL. */
    const char *(*route)(const fb_delta *deltas, size_t count);
} fb_controller;

/* Adds a key in `route`. */
void fb_route_to(fb_routed_key key);

/* Exports a controller from the component, once, at the top of a file. */
#define FB_EXPORT(controller) const fb_controller *const fb_exported = &(controller)
extern const fb_controller *const fb_exported;

/* The description. Each part is a cJSON object of describe.schema.json, so that a controller can set fields that have
 * no function here. */

/* Starts a description, with a queue of the same name. */
cJSON *fb_describe(const char *name, const char *version);
/* Adds a watch of a kind with these fields, which end with NULL. Returns it. */
cJSON *fb_watch(cJSON *description, const char *kind, ...) FB_SENTINEL;
/* Adds a watch of the metadata of all kinds that the API server serves. Returns it. */
cJSON *fb_watch_discovered(cJSON *description, uint32_t period_ms);
/* Adds a mapping to a watch. Returns it. */
cJSON *fb_enqueue(cJSON *watch, cJSON *mapping);

cJSON *fb_itself(void);                                       /* The object itself. */
cJSON *fb_controller_of(const char *kind);                    /* Its controller, if it is of this kind. */
cJSON *fb_owners_of(const char *kind);                        /* Its owners of this kind. */
cJSON *fb_named(const char *path, bool namespaced);           /* The objects whose names are at this path. */
cJSON *fb_selecting(const char *kind, const char *path);      /* Those whose selector matches its labels. */
cJSON *fb_all_in_namespace(const char *kind);                 /* All objects of this kind in its namespace. */
cJSON *fb_all_of(const char *kind);                           /* All objects of this kind. */
cJSON *fb_its_namespace(void);                                /* The name of its namespace. */
cJSON *fb_constant_key(const char *key);                          /* A constant key. */
cJSON *fb_its_reference(void);                                /* A reference to it. */
cJSON *fb_dependents(void);                                   /* References to the objects that name it as an owner. */
cJSON *fb_owner_references(const char *which);                /* References to its owners that are `missing` or `deleting`. */
cJSON *fb_routed(void);                                       /* The keys that `route` returns. */

/* Requests verbs, which end with NULL, on a kind or on a subresource of it; `*` means all kinds. */
void fb_permission(cJSON *description, const char *kind, const char *subresource, ...) FB_SENTINEL;
/* Restricts the permission that was requested last to these namespaces, which end with NULL. */
void fb_in_namespaces(cJSON *description, ...) FB_SENTINEL;
/* Requests an import that needs a grant: `cloud`, `discovery`, `signer`, `raw`. */
void fb_import(cJSON *description, const char *import);
/* Adds a queue with client-go's defaults. Returns it. */
cJSON *fb_add_queue(cJSON *description, const char *name);
/* Adds an index of a watched kind by the value of a field. */
void fb_add_index(cJSON *description, const char *name, const char *kind, const char *path);
/* Adds a key that is enqueued periodically. Returns it. */
cJSON *fb_add_ticker(cJSON *description, const char *key, uint32_t period_ms);
/* Declares a configuration key. The default may be NULL. */
void fb_add_config(cJSON *description, const char *key, const char *fallback, const char *help);
/* Declares a `counter`, a `gauge` or a `sum` (a gauge that shows the sum of the values that each key has set last) with
 * these labels, which end with NULL. Returns it. */
cJSON *fb_add_metric(cJSON *description, const char *type, const char *name, const char *help, ...) FB_SENTINEL;

/* JSON. A path consists of names, separated by dots: `spec.replicas`. */

cJSON *fb_at(const cJSON *object, const char *path);         /* The value at a path; NULL if there is none. */
const char *fb_text(const cJSON *object, const char *path);  /* The string at a path; empty if there is none. */
int64_t fb_number(const cJSON *object, const char *path);    /* The number at a path; 0 if there is none. */
bool fb_flag(const cJSON *object, const char *path);         /* Whether `true` is at a path. */
const char *fb_label(const cJSON *object, const char *name); /* A label; NULL if there is none. */
const char *fb_annotation(const cJSON *object, const char *name);
/* Sets a string, and creates the objects on its path. */
void fb_set_text(cJSON *object, const char *path, const char *value);
/* Sets a value, and creates the objects on its path. */
void fb_set(cJSON *object, const char *path, cJSON *value);
/* Parses a document, such as a literal. Ends the instance if it is malformed. */
cJSON *fb_parse(const char *text);
char *fb_print(const cJSON *value);
/* Names the object: the key of its metadata. */
fb_key fb_key_of(const cJSON *object);

/* Cached reads. */

/* Reads an object with the declared fields; `found` is NULL if there is none. */
const fb_error *fb_get(const char *kind, const char *ns, const char *name, cJSON **found);

/* One condition of a list: `labels`, `index/NAME`, `uid`, `owner`, `controller`, `orphan`. */
typedef struct {
    const char *name;
    const char *value;
} fb_condition_of_list;

/* A cached list. Set the first fields, and call fb_next until it returns NULL; then check `error`. */
typedef struct {
    const char *kind;                       /* `*` for all kinds of discovery watches. */
    const char *ns;                         /* All namespaces if empty. */
    const fb_condition_of_list *conditions; /* All must hold. */
    size_t condition_count;
    const char *const *fields; /* The fields of each object, ending with NULL; all declared ones if NULL. */
    bool rows;                 /* Each object is an array with the values at `fields`. */
    const fb_error *error;
    /* The other fields are internal to the SDK. */
    cJSON *item;
    int32_t cursor;
    int state;
} fb_list;

/* Returns the next object, in order of namespace and name; NULL at the end, or after an error. */
cJSON *fb_next(fb_list *list);
/* Returns the number of objects of a list. No object crosses into the sandbox. */
const fb_error *fb_count(const fb_list *list, uint32_t *count);

/* Names an object. */
typedef struct {
    const char *kind;
    const char *ns;
    const char *name;
    const char *uid; /* Empty if it is not known. */
} fb_reference;

/* Returns a reference to an object of this kind that was read. */
fb_reference fb_reference_to(const char *kind, const cJSON *object);
/* Whether the deletion of this object was observed; false means unknown. */
bool fb_deletion_observed(fb_reference object);

/* Live reads. They need the verb `get` or `list` on the kind. */

typedef enum { FB_READ_GET, FB_READ_LIST, FB_READ_RAW } fb_read_verb;

/* A live read. */
typedef struct {
    fb_read_verb verb;
    const char *kind;
    const char *ns;
    const char *name;
    const char *const *fields; /* Ending with NULL; the whole object if NULL. */
    const fb_condition_of_list *parameters; /* The API's own, such as `labelSelector`, of a list. */
    size_t parameter_count;
    const char *path; /* Of a raw read. */
} fb_read;

/* The result of a read or a write of a batch: an error, or a document, which is NULL if none was asked for. */
typedef struct {
    const fb_error *error;
    cJSON *document;
} fb_result;

/* Runs reads concurrently, with one result for each. */
void fb_run_reads(const fb_read *reads, size_t count, fb_result *results);
/* Reads an object; `found` is NULL if it does not exist. */
const fb_error *fb_live_get(const char *kind, const char *ns, const char *name, cJSON **found);
/* Reads all objects of a list, in pages of 500, into an array. The selector may be NULL. */
const fb_error *fb_live_list(const char *kind, const char *ns, const char *label_selector, cJSON **found);
/* Returns the answer to a GET of a path. Needs the import `raw`. */
const fb_error *fb_raw(const char *path, cJSON **found);
/* Returns the kinds that the API server serves: `kinds` with `kind`, `plural`, `namespaced`, `preferred`, `verbs` and
 * `subresources`, and `failures`, an object of messages by group version. Needs the import `discovery`. */
const fb_error *fb_kinds(cJSON **found);

/* Writes. */

typedef enum {
    FB_CREATE,
    FB_UPDATE,
    FB_UPDATE_STATUS,
    FB_PATCH,
    FB_DELETE,
    FB_DELETE_COLLECTION
} fb_verb;

/* A write. It does nothing until it is run. Fields may be set before that. */
typedef struct {
    fb_verb verb;
    const char *kind;
    const char *ns;
    const char *name;
    const char *subresource;
    const char *resource_version; /* Of updates: the version that the change is based on. */
    const char *patch_type;       /* `json`, `merge`, `strategic` or `apply`. */
    const cJSON *body;            /* The object, the change, the whole new status, or the patch. */
    const cJSON *metadata;        /* A merge patch of the metadata that goes along with a status. */
    cJSON *options;               /* The API's options object. */
    const char *label_selector;   /* Of the deletion of a collection. */
    const char *field_selector;
    const char *const *returns; /* The fields to return, ending with NULL; none if NULL. */
} fb_write;

/* Creates an object. */
fb_write fb_create(const char *kind, const char *ns, const cJSON *object);
/* Posts to a subresource, such as `eviction`. */
fb_write fb_create_on(const char *kind, fb_key key, const char *subresource, const cJSON *body);
/* Updates an object that was read, by a JSON merge patch. Fails with a conflict if the object has changed since. */
fb_write fb_update(const char *kind, const cJSON *object, const cJSON *change);
/* Replaces the whole status of an object that was read. Fails with a conflict if the object has changed since. */
fb_write fb_update_status(const char *kind, const cJSON *object, const cJSON *status);
/* Patches an object in any version. */
fb_write fb_patch(const char *kind, fb_key key, const char *patch_type, const cJSON *patch);
/* Applies a configuration with a name (server-side apply). Fails with a conflict if another manager owns a field,
 * unless `force` is set. */
fb_write fb_apply(const char *kind, const cJSON *object, const char *field_manager, bool force);
/* Deletes the object that was read, with its UID as a precondition. */
fb_write fb_delete(const char *kind, const cJSON *object);
/* Deletes the object with this name. */
fb_write fb_delete_name(const char *kind, fb_key key);
/* Deletes all objects in a namespace that match both selectors. */
fb_write fb_delete_collection(const char *kind, const char *ns, const char *labels, const char *fields);

/* Runs a write. `answer` may be NULL. */
const fb_error *fb_run(fb_write write, cJSON **answer);
/* Runs writes concurrently, with one result for each. With `slow_start`, the first round has that many writes, and each
 * further one twice as many as the round before. With `stop_on_error`, writes run one after another. After an error,
 * the remaining writes are `Skipped`. */
void fb_run_writes(const fb_write *writes, size_t count, uint32_t slow_start, bool stop_on_error, fb_result *results);

/* Helpers. */

bool fb_is_deleting(const cJSON *object);
bool fb_has_finalizer(const cJSON *object, const char *finalizer);
/* The update that appends a finalizer. */
fb_write fb_add_finalizer(const char *kind, const cJSON *object, const char *finalizer);
/* The update that removes a finalizer and keeps others. */
fb_write fb_remove_finalizer(const char *kind, const cJSON *object, const char *finalizer);

/* A condition of a status. */
typedef struct {
    const char *type;
    const char *status; /* `True`, `False` or `Unknown`. */
    const char *reason;
    const char *message;
    int64_t observed_generation; /* 0 for none. */
} fb_condition;

/* Returns the condition of this type in an array; NULL if there is none. */
cJSON *fb_get_condition(const cJSON *conditions, const char *type);
/* Sets a condition in an array, as apimachinery does: `lastTransitionTime` changes only if the status does. Returns
 * whether anything changed. */
bool fb_set_condition(cJSON *conditions, fb_condition condition);

/* Returns the owner reference of the controller; NULL if there is none. */
cJSON *fb_get_controller(const cJSON *object);
bool fb_is_controlled_by(const cJSON *object, const cJSON *owner);
/* Returns a reference to an owner of this kind, not as the controller. */
cJSON *fb_owner_reference(const char *kind, const cJSON *owner);
/* Returns a reference to an owner of this kind as the controller. It blocks the owner's deletion. */
cJSON *fb_controller_reference(const char *kind, const cJSON *owner);

/* Events, log, clock and the other imports. */

/* Emits a `Normal` or `Warning` event about an object that was read. Never fails. `options` are
 * event-options.schema.json, or NULL. */
void fb_emit(const char *kind, const cJSON *about, const char *type, const char *reason, const char *message, cJSON *options);

typedef enum { FB_LOG_TRACE, FB_LOG_DEBUG, FB_LOG_INFO, FB_LOG_WARN, FB_LOG_ERROR } fb_level;

/* Writes a line to the host's log, which adds the plugin's name and the key. */
void fb_log(fb_level level, const char *format, ...) FB_PRINTF(2, 3);
/* Writes a line with fields. */
void fb_log_fields(fb_level level, const char *message, const fb_condition_of_list *fields, size_t count);
/* Whether lines of this level are kept. */
bool fb_log_enabled(fb_level level);
#define fb_debug(...) fb_log(FB_LOG_DEBUG, __VA_ARGS__)
#define fb_info(...) fb_log(FB_LOG_INFO, __VA_ARGS__)
#define fb_warn(...) fb_log(FB_LOG_WARN, __VA_ARGS__)

/* A point in time since 1970. */
typedef struct {
    uint32_t seconds;
    uint32_t nanoseconds;
} fb_time;

fb_time fb_now(void);
/* Returns a time as the API writes it: `2026-01-31T12:00:00Z`. */
char *fb_rfc3339(fb_time time);
/* Fills memory with random bytes, for names and jitter; never for cryptographic keys. At most 64 KiB. */
void fb_random(void *bytes, size_t count);
/* Returns the operator's value of a configuration key, or its declared default; NULL if there is none. */
const char *fb_config(const char *key);

/* Enqueues a key. An empty queue is the primary one. */
const fb_error *fb_queue_add(const char *queue, const char *key);
const fb_error *fb_queue_add_after(const char *queue, const char *key, uint32_t delay_ms);
/* Resets the backoff of a key. */
const fb_error *fb_queue_forget(const char *queue, const char *key);
/* Returns the number of retries of a key since it last succeeded. */
const fb_error *fb_queue_requeues(const char *queue, const char *key, uint32_t *count);

/* Adds to a counter, sets a gauge, or observes a value in a histogram. The labels are the values, ending with NULL. */
void fb_metric_add(const char *name, double value, ...) FB_SENTINEL;
void fb_metric_set(const char *name, double value, ...) FB_SENTINEL;
void fb_metric_observe(const char *name, double value, ...) FB_SENTINEL;

/* Returns a value of the memo and its version; NULL and 0 if there is none. */
cJSON *fb_memo_get(const char *key, uint32_t *version);
/* Puts a value if the version is still the expected one. It lasts until the object of the UID is deleted, if any, and
 * for this time, if it is not 0. */
const fb_error *fb_memo_put(const char *key, uint32_t expected, const cJSON *value, const char *object_uid, uint32_t ttl_ms);
void fb_memo_remove(const char *key);

/* Signs a JSON Web Token with a key of the host. Needs the import `signer`, as do the functions below. */
const fb_error *fb_sign_jwt(const char *key, const cJSON *claims, char **token);
/* Returns the claims of a token that this key signed. */
const fb_error *fb_verify_jwt(const char *key, const char *token, cJSON **claims);

/* Bytes, such as a certificate in DER. */
typedef struct {
    uint8_t *bytes;
    size_t length;
} fb_bytes;

/* The content of a certificate. Set exactly one of `public_key` and `request`. Lists end with NULL. */
typedef struct {
    fb_bytes public_key; /* A SubjectPublicKeyInfo. */
    fb_bytes request;    /* A PKCS#10 request. */
    /* The subject's relative names, each of one attribute: an object identifier and a value. */
    const fb_condition_of_list *subject;
    size_t subject_count;
    const char *const *dns_names;
    const char *const *email_addresses;
    const char *const *ip_addresses;
    const char *const *uris;
    uint16_t key_usages; /* X.509's bits: `digitalSignature` is bit 0. */
    const char *const *extended_key_usages;
    fb_time not_before;
    fb_time not_after;
} fb_certificate_template;

/* Returns the certificates of a signer's authority. */
const fb_error *fb_certificate_authority(const char *signer, fb_bytes **certificates, size_t *count);
/* Returns a certificate by a signer's authority. */
const fb_error *fb_sign_certificate(const char *signer, const fb_certificate_template *template, fb_bytes *certificate);

#endif
