/* Flags Pods whose images have no digest.
 *
 * A tag can be moved to another image at any time; a digest can't. A Pod with an image that no digest pins gets an
 * event, and the gauge `unpinned_containers` counts its containers. Pods are only read. Namespaces can be exempt. */
#include "image_pin.h"

#include <string.h>

#include "reference.h"

/* The most containers that an event names. A message of an event may have 1 KiB. */
#define MOST_NAMED 3
/* The bytes of an image that an event shows. The API does not limit its length. */
#define LONGEST_IMAGE 200

/* The paths of a Pod's lists of containers. */
static const char *const LISTS[] = {"spec.initContainers", "spec.containers", "spec.ephemeralContainers"};
static const size_t LIST_COUNT = sizeof LISTS / sizeof *LISTS;

static cJSON *describe(void) {
    cJSON *description = fb_describe("image-pin", "0.1.0");
    cJSON *pods = fb_watch(description, POD, NULL);
    cJSON *fields = fb_at(pods, "fields");
    cJSON *changes = cJSON_AddArrayToObject(pods, "changes");
    for (size_t i = 0; i < LIST_COUNT; i++) {
        char *images = fb_format("%s[*].image", LISTS[i]);
        cJSON_AddItemToArray(fields, cJSON_CreateString(images));
        cJSON_AddItemToArray(fields, cJSON_CreateString(fb_format("%s[*].name", LISTS[i])));
        /* The status of a Pod changes often, and its images seldom. */
        cJSON *change = cJSON_CreateObject();
        cJSON_AddStringToObject(change, "path", images);
        cJSON_AddItemToArray(changes, change);
    }
    fb_enqueue(pods, fb_itself());
    fb_add_config(description, EXEMPT_NAMESPACES, "kube-system", "Namespaces whose Pods are not flagged, with commas between");
    fb_add_metric(description, "sum", UNPINNED, "Containers of Pods whose image has no digest.", "namespace", NULL);
    return description;
}

/* Whether a list of names, separated by commas and spaces, contains a name. */
static bool lists(const char *names, const char *name) {
    static const char *const BETWEEN = ", \t\n";
    size_t length = strlen(name);
    for (names += strspn(names, BETWEEN); *names; names += strspn(names, BETWEEN)) {
        size_t own = strcspn(names, BETWEEN);
        if (own == length && strncmp(names, name, length) == 0)
            return true;
        names += own;
    }
    return false;
}

/* Returns the beginning of a text in UTF-8, of at most this many bytes. */
static const char *shortened(const char *text, size_t most) {
    size_t length = strlen(text);
    if (length <= most)
        return text;
    /* A character's further bytes begin with the bits 10. */
    while (most > 0 && ((unsigned char)text[most] & 0xC0) == 0x80)
        most--;
    return fb_format("%.*s…", (int)most, text);
}

/* Counts the containers whose image has no digest, and returns a text that names the first of them. */
static const char *unpinned(const cJSON *pod, int *count) {
    const char *named = "";
    *count = 0;
    for (size_t i = 0; i < LIST_COUNT; i++) {
        const cJSON *container;
        cJSON_ArrayForEach(container, fb_at(pod, LISTS[i])) {
            const char *image = fb_text(container, "image");
            /* A Pod's template may leave the image to an admission webhook. */
            if (*image == '\0' || has_digest(image))
                continue;
            if ((*count)++ < MOST_NAMED)
                named = fb_format("%s%s%s (%s)", named, *named ? ", " : "", fb_text(container, "name"),
                                  shortened(image, LONGEST_IMAGE));
        }
    }
    return *count > MOST_NAMED ? fb_format("%s and %d more", named, *count - MOST_NAMED) : named;
}

static fb_outcome reconcile(const fb_request *request) {
    const char *ns = request->key.ns;
    cJSON *pod;
    FB_TRY(fb_get(POD, ns, request->key.name, &pod));
    int count = 0;
    const char *named = "";
    if (pod != NULL && !lists(fb_config(EXEMPT_NAMESPACES), ns))
        named = unpinned(pod, &count);
    /* 0 removes the Pod's part, which a deleted Pod must not leave behind. */
    fb_metric_set(UNPINNED, count, ns, NULL);
    if (count > 0) {
        cJSON *options = cJSON_CreateObject();
        cJSON_AddBoolToObject(options, "once", true);
        const char *message = fb_format("no digest pins the image of %s", named);
        fb_emit(POD, pod, "Warning", "ImageNotPinned", message, options);
    }
    return fb_done();
}

const fb_controller image_pin = {.describe = describe, .reconcile = reconcile};
