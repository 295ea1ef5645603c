/* Declarations that the SDK's files share. The functions of the world are in sandbox/ for the sandbox, and in testing/
 * for tests. */
#ifndef FLYBALL_INTERNAL_H
#define FLYBALL_INTERNAL_H

#include "flyball.h"

/* Makes cJSON allocate from the call's memory. */
void fb_begin_call(void);
/* Releases the call's memory. */
void fb_end_call(void);
char *fb_vformat(const char *format, va_list arguments);
fb_error *fb_new_error(int status, const char *reason, const char *message, fb_effect effect);
/* Returns an empty text for NULL. */
const char *fb_or_empty(const char *text);
/* Parses a document; NULL if it is malformed. */
cJSON *fb_parse_bytes(const char *bytes, size_t length);

/* A function of the world: loads the first or the next page of a list into `item`, and sets `cursor` and `state`. */
enum { FB_LIST_NEW, FB_LIST_MORE, FB_LIST_LAST };
void fb_load_page(fb_list *list);
/* A function of the world: changes a metric. The operation is `add`, `set` or `observe`. */
void fb_metric(const char *operation, const char *name, double value, const char *const *labels, size_t count);
/* A function of the world: emits an event. */
void fb_events_emit(fb_reference about, const char *type, const char *reason, const char *message, const cJSON *options);
/* Takes the keys that `route` has added. */
size_t fb_take_routed(const fb_routed_key **keys);

#endif
