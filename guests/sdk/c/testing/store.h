/* The objects of the fake. */
#ifndef FLYBALL_STORE_H
#define FLYBALL_STORE_H

#include "../internal.h"

void store_clear(void);
/* Returns the object itself; NULL if there is none. */
cJSON *store_find(const char *kind, const char *ns, const char *name);
/* Returns the object at this position, in order of namespace and name; NULL after the last one. */
cJSON *store_at(size_t position);
/* Returns the kind of an object with `apiVersion` and `kind`. */
const char *store_kind_of(const cJSON *object);
/* Stores an object in place of an older one. */
void store_put(cJSON *object);
void store_remove(const cJSON *object);
/* Gives an object a new resource version. */
void store_touch(cJSON *object);
/* Runs a write, and sets `stored` to the object as it then is. */
const fb_error *store_write(const fb_write *write, cJSON **stored);
/* Whether an object's labels match a selector such as `app=web,!canary,tier in (a,b)`. */
bool store_matches(const cJSON *object, const char *selector);

#endif
