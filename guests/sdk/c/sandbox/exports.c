/* The component's exports and its handlers of faults. A failed assertion and an error that the compiler's checks find
 * are logged with file and line before the instance ends. */
#include <stdlib.h>
#include <string.h>

#include "controller.h"
#include "../internal.h"

/* The world owns results, and releases them after the call by free. */
static controller_string_t give(const char *text) {
    controller_string_t given;
    controller_string_dup(&given, fb_or_empty(text));
    return given;
}

void exports_flyball_controller_guest_describe(controller_list_u8_t *ret) {
    fb_begin_call();
    controller_string_t text = give(fb_print(fb_exported->describe()));
    *ret = (controller_list_u8_t){.ptr = text.ptr, .len = text.len};
    fb_end_call();
}

void exports_flyball_controller_guest_reconcile(controller_string_t *queue, controller_string_t *key, uint32_t attempt,
                                                exports_flyball_controller_guest_outcome_t *ret) {
    fb_begin_call();
    fb_request request = {.queue = fb_copy((const char *)queue->ptr, queue->len),
                          .key = fb_key_parse(fb_copy((const char *)key->ptr, key->len)),
                          .attempt = attempt};
    fb_outcome outcome = fb_exported->reconcile(&request);
    memset(ret, 0, sizeof *ret);
    switch (outcome.kind) {
    case FB_DONE:
        ret->tag = EXPORTS_FLYBALL_CONTROLLER_GUEST_OUTCOME_DONE;
        break;
    case FB_REQUEUE_AFTER:
        ret->tag = EXPORTS_FLYBALL_CONTROLLER_GUEST_OUTCOME_REQUEUE_AFTER;
        ret->val.requeue_after = outcome.after_ms;
        break;
    case FB_FAILED:
        ret->tag = EXPORTS_FLYBALL_CONTROLLER_GUEST_OUTCOME_FAILED;
        ret->val.failed = give(outcome.message);
        break;
    case FB_TERMINAL:
        ret->tag = EXPORTS_FLYBALL_CONTROLLER_GUEST_OUTCOME_TERMINAL;
        ret->val.terminal = give(outcome.message);
        break;
    }
    controller_string_free(queue);
    controller_string_free(key);
    fb_end_call();
}

static cJSON *parse(controller_option_list_u8_t document) {
    return document.is_some ? fb_parse_bytes((const char *)document.val.ptr, document.val.len) : NULL;
}

bool exports_flyball_controller_guest_route(exports_flyball_controller_guest_list_delta_t *deltas,
                                            exports_flyball_controller_guest_list_routed_key_t *ret,
                                            controller_string_t *err) {
    static const char *const TYPES[] = {"added", "modified", "deleted"};
    fb_begin_call();
    fb_delta *lifted = fb_alloc(deltas->len * sizeof *lifted);
    for (size_t i = 0; i < deltas->len; i++) {
        exports_flyball_controller_guest_delta_t *delta = &deltas->ptr[i];
        lifted[i] = (fb_delta){.watch = fb_copy((const char *)delta->watch.ptr, delta->watch.len),
                               .delta_type = TYPES[delta->delta_type],
                               .before = parse(delta->old),
                               .after = parse(delta->new_),
                               .initial = delta->initial};
    }
    const char *failure = fb_exported->route == NULL ? NULL : fb_exported->route(lifted, deltas->len);
    const fb_routed_key *keys;
    size_t count = fb_take_routed(&keys);
    if (failure != NULL) {
        *err = give(failure);
    } else {
        *ret = (exports_flyball_controller_guest_list_routed_key_t){calloc(count + 1, sizeof *ret->ptr), count};
        for (size_t i = 0; i < count; i++)
            ret->ptr[i] = (exports_flyball_controller_guest_routed_key_t){
                give(keys[i].queue), give(keys[i].key), keys[i].delay_ms};
    }
    exports_flyball_controller_guest_list_delta_free(deltas);
    fb_end_call();
    return failure == NULL;
}

/* The standard library calls it for a failed assertion. */
_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function) {
    fb_log(FB_LOG_ERROR, "assertion failed: %s (%s:%d in %s)", expression, file, line, function);
    abort();
}

/* The data that the compiler passes for a failed check. The source location is the first field of each kind of data. */
typedef struct {
    const char *file;
    uint32_t line;
    uint32_t column;
} location;

#define ON_FAULT(name, text, ...)                                                                         \
    _Noreturn void __ubsan_handle_##name(location *at __VA_OPT__(, ) __VA_ARGS__) {                       \
        fb_log(FB_LOG_ERROR, text " (%s:%u:%u)", at->file, (unsigned)at->line, (unsigned)at->column);     \
        abort();                                                                                          \
    }

ON_FAULT(type_mismatch_v1_abort, "NULL or misaligned pointer", uintptr_t pointer)
ON_FAULT(out_of_bounds_abort, "index outside of an array", uintptr_t index)
ON_FAULT(divrem_overflow_abort, "division by zero or overflow", uintptr_t left, uintptr_t right)
ON_FAULT(shift_out_of_bounds_abort, "shift by too many bits", uintptr_t left, uintptr_t right)
ON_FAULT(vla_bound_not_positive_abort, "array of no or negative length", uintptr_t length)
ON_FAULT(builtin_unreachable, "unreachable code was reached")
ON_FAULT(missing_return, "the end of a function without a return was reached")
