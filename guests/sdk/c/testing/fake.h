/* Tests of controllers without a cluster or a sandbox: put objects, reconcile a key, and check the writes.
 *
 * The fake is linked in place of the sandbox's functions. It enforces the permissions that the controller describes, and keeps
 * resource versions, UIDs, generations, conflicts, finalizers and deletion timestamps as the API server does. Reads return whole
 * objects, whatever fields are declared. Strategic merge patches and applies work as merge patches; there are no field
 * managers. There are no schemas. */
#ifndef FLYBALL_FAKE_H
#define FLYBALL_FAKE_H

#include "../flyball.h"

/* Empties the cluster, and restricts it to what the controller describes; to nothing if it is NULL. Ends the memory of all that
 * was read before. The clock is at 2026-01-01T00:00:00Z. */
void fbt_start(const fb_controller *controller);
/* Reconciles a key. */
fb_outcome fbt_reconcile(const char *key);
/* Routes one delta, and returns the keys as lines: `queue key delay`. */
const char *fbt_route(fb_delta delta);

/* Stores an object with `apiVersion` and `kind` verbatim. What a server sets and it lacks is filled in. */
void fbt_put(const char *json);
/* Changes an object like another client, by a merge patch of any of its fields. */
void fbt_edit(const char *kind, const char *ns, const char *name, const char *patch);
/* Deletes an object like another client: with finalizers, it only gets a deletion timestamp. */
void fbt_delete(const char *kind, const char *ns, const char *name);
/* Removes an object at once. */
void fbt_remove(const char *kind, const char *ns, const char *name);
/* Makes a call fail once: a verb of a write, or `get` and `list` of live reads. */
void fbt_fail(const char *verb, const char *kind, int status, const char *reason);
void fbt_set_config(const char *key, const char *value);
void fbt_set_time(fb_time time);
/* Sets the answer to a raw GET of a path. */
void fbt_set_raw(const char *path, const char *json);

/* Returns a copy of an object; NULL if there is none. */
cJSON *fbt_object(const char *kind, const char *ns, const char *name);
/* Each returns the lines since its last call, and an empty text if there are none. */
const char *fbt_written(void);  /* `create v1/ConfigMap a/b`, and `: Conflict` after it if it failed. */
const char *fbt_events(void);   /* `Normal Greeted wrote ConfigMap b`. */
const char *fbt_enqueued(void); /* `queue key delay`. */
const char *fbt_logged(void);   /* `info wrote ConfigMap b`. */
const char *fbt_measured(void); /* `add greeted_total well 1`. */

/* A test, with a name that is a sentence. */
typedef struct {
    const char *name;
    void (*run)(void);
} fbt_test;

#define FBT_TEST(function) {#function, function}
/* Runs tests and prints how they went. Returns what `main` returns. */
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
