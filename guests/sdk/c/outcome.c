/* Keys, outcomes and errors. */
#include <string.h>

#include "internal.h"

const char *fb_or_empty(const char *text) {
    return text == NULL ? "" : text;
}

bool fb_is(const fb_error *error, const char *reason) {
    return error != NULL && strcmp(error->reason, reason) == 0;
}

fb_error *fb_new_error(int status, const char *reason, const char *message, fb_effect effect) {
    fb_error *error = fb_alloc(sizeof *error);
    *error = (fb_error){.status = status, .reason = reason, .message = message, .effect = effect};
    return error;
}

char *fb_key_text(fb_key key) {
    const char *ns = fb_or_empty(key.ns);
    return fb_format("%s%s%s", ns, *ns ? "/" : "", fb_or_empty(key.name));
}

fb_key fb_key_parse(const char *text) {
    const char *slash = strchr(text, '/');
    if (slash == NULL)
        return (fb_key){.ns = "", .name = fb_copy(text, strlen(text))};
    return (fb_key){.ns = fb_copy(text, (size_t)(slash - text)), .name = fb_copy(slash + 1, strlen(slash + 1))};
}

fb_outcome fb_done(void) {
    return (fb_outcome){.kind = FB_DONE};
}

fb_outcome fb_requeue_after(uint32_t milliseconds) {
    return (fb_outcome){.kind = FB_REQUEUE_AFTER, .after_ms = milliseconds};
}

fb_outcome fb_failed(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fb_outcome outcome = {.kind = FB_FAILED, .message = fb_vformat(format, arguments)};
    va_end(arguments);
    return outcome;
}

fb_outcome fb_failed_by(const fb_error *error) {
    return fb_failed("%s (%d %s)", error->message, error->status, error->reason);
}

fb_outcome fb_terminal(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fb_outcome outcome = {.kind = FB_TERMINAL, .message = fb_vformat(format, arguments)};
    va_end(arguments);
    return outcome;
}

static fb_routed_key *routed;
static size_t routed_count, routed_size;

void fb_route_to(fb_routed_key key) {
    if (routed_count == routed_size) {
        size_t size = routed_size == 0 ? 16 : 2 * routed_size;
        fb_routed_key *grown = fb_alloc(size * sizeof *grown);
        if (routed_count > 0)
            memcpy(grown, routed, routed_count * sizeof *grown);
        routed = grown;
        routed_size = size;
    }
    routed[routed_count++] = key;
}

size_t fb_take_routed(const fb_routed_key **keys) {
    size_t count = routed_count;
    *keys = routed;
    routed = NULL;
    routed_count = routed_size = 0;
    return count;
}
