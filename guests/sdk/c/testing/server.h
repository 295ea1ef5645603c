/* Calls to the process that holds the cluster. */
#ifndef FLYBALL_SERVER_H
#define FLYBALL_SERVER_H

#include "../internal.h"

/* Replaces the cluster by a new, empty one. */
void server_new_cluster(void);
/* Opens the call at a line of a recording, in place of the cluster. */
void server_open_recorded(const char *path, int line);
/* Makes a call with these arguments, which may be NULL, and sets `result`, unless that is NULL. Returns the error that
 * the controller gets. A mistake of the test ends the program. */
const fb_error *server_call(const char *name, cJSON *arguments, cJSON **result);
/* Returns the error of a reply; NULL if it has none. */
const fb_error *server_error(const cJSON *reply);

#endif
