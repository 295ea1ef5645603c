/* The greeter in C with faults: see README.md in the folder above. */
#include <string.h>

#include "../../../../examples/greeter-c/src/greeter.c"

/* The number of calls of this instance that counted. */
static int counted;

static fb_outcome raise_fault(const int *number) {
    return fb_failed("%d", *number); /* the bug */
}

static fb_outcome conflict(cJSON *greeting) {
    fb_set_text(greeting, "metadata.resourceVersion", "1");
    cJSON *change = cJSON_CreateObject();
    fb_set_text(change, "spec.text", "overwritten");
    const fb_error *error = fb_run(fb_update(GREETING, greeting, change), NULL);
    if (fb_is_conflict(error))
        return fb_failed("found a conflict: %s (%d %s)", error->message, error->status, error->reason);
    return fb_failed("found no conflict");
}

static fb_outcome reconcile_with_faults(const fb_request *request) {
    cJSON *greeting;
    FB_TRY(fb_get(GREETING, request->key.ns, request->key.name, &greeting));
    const char *text = fb_text(greeting, "spec.text");
    if (strcmp(text, "fault: raise") == 0) {
        const int *volatile nothing = NULL;
        return raise_fault(nothing);
    }
    if (strcmp(text, "fault: loop") == 0) {
        for (volatile int turn = 0;; turn = 0)
            (void)turn;
    }
    if (strcmp(text, "fault: error") == 0)
        return fb_failed("asked to fail");
    if (strcmp(text, "fault: terminal") == 0)
        return fb_terminal("no retry can help");
    if (strcmp(text, "fault: requeue") == 0)
        return fb_requeue_after(50);
    if (strcmp(text, "fault: conflict") == 0)
        return conflict(greeting);
    if (strcmp(text, "fault: count") == 0)
        return fb_terminal("call %d of this instance", ++counted);
    return reconcile(request);
}

static const fb_controller faulty = {.describe = describe, .reconcile = reconcile_with_faults};

FB_EXPORT(faulty);
