/* Tests of controllers without a cluster or a sandbox: put objects, reconcile a key, and check the writes.
 *
 * The functions here are linked instead of the sandbox's. The controller runs in the test's process. The cluster is in
 * memory, in a process that the tests start: the program flyball, which the variable FLYBALL names or which is on the
 * PATH.
 *
 * The controller's own description is enforced: it reads only what it declares, and writes only with the permissions
 * that it asks for. The server supports resource versions, generations, finalizers and graceful deletion, subresources,
 * all patch types, and server-side apply with field managers and conflicts. Objects of kinds that fbt_define defines are
 * pruned, defaulted and validated by their schemas, except for rules in CEL; others are neither checked nor defaulted. */
#ifndef FLYBALL_FAKE_H
#define FLYBALL_FAKE_H

#include "../flyball.h"

/* Empties the cluster, and restricts it to the controller's description; without restriction if the controller is NULL.
 * Releases the memory of all objects that were read before. The clock is at 2026-01-01T00:00:00Z. */
void fbt_start(const fb_controller *controller);
/* Reconciles a key. */
fb_outcome fbt_reconcile(const char *key);
/* Routes one delta, and returns the keys as lines: `queue key delay`. */
const char *fbt_route(fb_delta delta);

/* Repeats the calls of a recording, which `flyball record` has written. Ends the program where the controller asks or writes
 * something else than it did then, or ends in another way. Calls that were stopped at a limit are left out, because nothing
 * stops them here. */
void fbt_replay(const fb_controller *controller, const char *file);

/* Reads CustomResourceDefinitions from a file in YAML, such as the project's crd.yaml. From then on, objects of their
 * kinds are pruned, defaulted and validated as by the API server. A field that a write has and the schema lacks is a
 * warning in the log and in the line of the write. An object that the test puts must fit, and the fields that the
 * controller declares must be in the schema. */
void fbt_define(const char *file);
/* Stores an object with `apiVersion` and `kind` verbatim. Absent fields that a server sets are filled in. */
void fbt_put(const char *json);
/* Changes an object like another client, by a merge patch of any of its fields. */
void fbt_edit(const char *kind, const char *ns, const char *name, const char *patch);
/* Deletes an object like another client: with finalizers or a grace period, it only gets a deletion timestamp. */
void fbt_delete(const char *kind, const char *ns, const char *name);
/* Removes an object at once. */
void fbt_remove(const char *kind, const char *ns, const char *name);
/* Makes live reads return this object while the cache has another one or none. */
void fbt_put_live(const char *json);
/* Makes live reads not find this object while the cache still has it. */
void fbt_remove_live(const char *kind, const char *ns, const char *name);
/* Makes the next call fail: a verb of a write (`patch` for a server-side apply) and a kind such as `v1/Pod` or
 * `v1/Pod/status`, `get` and `list` of live reads, `count`, `raw` with a path, or `discover` with an empty kind. Another
 * verb is an error. */
void fbt_fail(const char *verb, const char *kind, int status, const char *reason);
void fbt_set_config(const char *key, const char *value);
void fbt_set_now(fb_time time);
void fbt_advance(uint32_t milliseconds);
/* Sets the answer to a raw GET of a path. */
void fbt_put_raw(const char *path, const char *json);
/* Makes the host report the deletion of this object as observed. */
void fbt_observe_deletion(fb_reference object);
/* Adds a kind to the result of discovery. The verbs end with NULL. */
void fbt_serve(const char *kind, const char *plural, bool namespaced, const char *const *verbs);
/* Adds a signing key. Its tokens are placeholders. */
void fbt_add_key(const char *name);
/* Adds an authority of a signer. Its certificates are placeholders. */
void fbt_add_authority(const char *signer);

/* Returns a copy of an object; NULL if there is none. */
cJSON *fbt_object(const char *kind, const char *ns, const char *name);
/* Each of these functions returns the lines since its last call, and an empty text if there are none. */
const char *fbt_written(void);    /* `create v1/ConfigMap a/b`, and after it `: warning: …`, and `: … (409 Conflict)` if it failed. */
const char *fbt_live_reads(void); /* `list v1/ConfigMap a`. */
const char *fbt_events(void);     /* `Normal Greeted wrote ConfigMap b`. */
const char *fbt_enqueued(void);   /* `queue key delay`. */
const char *fbt_logged(void);     /* `info wrote ConfigMap b`. */
const char *fbt_metrics(void);    /* `add greeted_total well 1`. */

/* A test, with a name that is a sentence. */
typedef struct {
    const char *name;
    void (*run)(void);
} fbt_test;

#define FBT_TEST(function) {#function, function}
/* Runs tests and prints their results. Returns the exit code for `main`. */
int fbt_run(const fbt_test *tests, size_t count);
/* Fails the running test, and goes on. */
void fbt_check(bool holds, const char *file, int line, const char *format, ...) FB_PRINTF(4, 5);
bool fbt_same(const char *left, const char *right);
#define FBT_CHECK(condition) fbt_check((condition), __FILE__, __LINE__, "%s", #condition)
#define FBT_CHECK_TEXT(actual, expected)                                                                  \
    do {                                                                                                  \
        const char *fbt_actual = (actual), *fbt_expected = (expected);                                    \
        fbt_check(fbt_same(fbt_actual, fbt_expected), __FILE__, __LINE__, "%s is `%s`, not `%s`", #actual, \
                  fbt_actual, fbt_expected);                                                              \
    } while (0)

#endif
