#include "image_pin.h"
#include "reference.h"
#include "testing/fake.h"

#include <string.h>

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Starts with a Pod `team/web` with these containers, in JSON. */
static void start(const char *spec) {
    fbt_start(&image_pin);
    fbt_put(fb_format("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"web\", \"namespace\": \"team\"}, "
                      "\"spec\": %s}",
                      spec));
}

/* Reconciles the Pod, which is never written. */
static void reconcile(void) {
    FBT_CHECK(fbt_reconcile("team/web").kind == FB_DONE);
    FBT_CHECK_TEXT(fbt_written(), "");
}

static void a_digest_pins_an_image_and_a_tag_does_not(void) {
    fbt_start(NULL);
    static const char *const PINNED[] = {
        "nginx@" DIGEST,
        "registry.example:5000/a/b:1.27@" DIGEST,
        "nginx@sha512:0123456789abcdefABCDEF0123456789abcdef0123456789",
        "nginx@multihash+base58:0123456789abcdef0123456789abcdef",
    };
    static const char *const LOOSE[] = {
        "nginx", "nginx:1.27", "nginx:latest", "registry.example:5000/nginx", "", "@" DIGEST, "nginx@", "nginx@sha256",
        "nginx@sha256:", "nginx@sha256:0123456789abcdef", "nginx@" DIGEST "g", "nginx@:0123456789abcdef0123456789abcdef",
        "nginx@sha256+:0123456789abcdef0123456789abcdef", "nginx@" DIGEST ":latest", "größe:1",
    };
    for (size_t i = 0; i < sizeof PINNED / sizeof *PINNED; i++)
        fbt_check(has_digest(PINNED[i]), __FILE__, __LINE__, "%s is pinned", PINNED[i]);
    for (size_t i = 0; i < sizeof LOOSE / sizeof *LOOSE; i++)
        fbt_check(!has_digest(LOOSE[i]), __FILE__, __LINE__, "%s is not pinned", LOOSE[i]);
}

static void a_pod_without_digests_gets_an_event_and_is_counted(void) {
    start("{\"initContainers\": [{\"name\": \"init\", \"image\": \"busybox\"}], \"containers\": [{\"name\": \"web\", \"image\": "
          "\"nginx:1.27\"}, {\"name\": \"log\", \"image\": \"fluent@" DIGEST "\"}], \"ephemeralContainers\": [{\"name\": \"debug\", "
          "\"image\": \"werkzeug:grüezi\"}]}");
    reconcile();
    FBT_CHECK_TEXT(fbt_events(), "Warning ImageNotPinned no digest pins the image of init (busybox), web (nginx:1.27), debug "
                                 "(werkzeug:grüezi)");
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 3");
}

static void a_pinned_pod_is_left_in_peace(void) {
    start("{\"containers\": [{\"name\": \"web\", \"image\": \"nginx:1.27@" DIGEST "\"}]}");
    reconcile();
    FBT_CHECK_TEXT(fbt_events(), "");
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 0");
}

static void a_changed_image_ends_the_count(void) {
    start("{\"containers\": [{\"name\": \"web\", \"image\": \"nginx\"}]}");
    reconcile();
    fbt_events(), fbt_metrics();
    fbt_edit(POD, "team", "web", "{\"spec\": {\"containers\": [{\"name\": \"web\", \"image\": \"nginx@" DIGEST "\"}]}}");
    reconcile();
    FBT_CHECK_TEXT(fbt_events(), "");
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 0");
}

static void a_deleted_pod_is_no_longer_counted(void) {
    start("{\"containers\": [{\"name\": \"web\", \"image\": \"nginx\"}]}");
    reconcile();
    fbt_events(), fbt_metrics();
    fbt_remove(POD, "team", "web");
    reconcile();
    FBT_CHECK_TEXT(fbt_events(), "");
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 0");
}

static void pods_of_exempt_namespaces_are_not_flagged(void) {
    start("{\"containers\": [{\"name\": \"web\", \"image\": \"nginx\"}]}");
    fbt_set_config(EXEMPT_NAMESPACES, "kube-system, team");
    reconcile();
    FBT_CHECK_TEXT(fbt_events(), "");
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 0");
    fbt_set_config(EXEMPT_NAMESPACES, "teams,tea,");
    reconcile();
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 1");
}

static void a_message_stays_short_whatever_the_pod_holds(void) {
    start("{}");
    cJSON *containers = cJSON_CreateArray();
    char image[5000];
    /* The limit falls into a character of two bytes. */
    for (size_t i = 0; i + 2 < sizeof image; i += 2)
        memcpy(image + i + 1, "ü", 2);
    image[0] = 'a', image[sizeof image - 1] = '\0';
    for (int i = 0; i < 1000; i++) {
        cJSON *container = cJSON_CreateObject();
        cJSON_AddStringToObject(container, "name", fb_format("c%d", i));
        cJSON_AddStringToObject(container, "image", image);
        cJSON_AddItemToArray(containers, container);
    }
    fbt_edit(POD, "team", "web", fb_format("{\"spec\": {\"containers\": %s}}", fb_print(containers)));
    reconcile();
    const char *event = fbt_events();
    FBT_CHECK(strlen(event) < 1024);
    FBT_CHECK(strstr(event, "ü…), c1 (a") != NULL && strstr(event, " and 997 more") != NULL);
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 1000");
}

static void a_container_without_an_image_is_not_flagged(void) {
    start("{\"containers\": [{\"name\": \"web\"}]}");
    reconcile();
    FBT_CHECK_TEXT(fbt_metrics(), "set unpinned_containers team 0");
}

int main(void) {
    static const fbt_test TESTS[] = {
        FBT_TEST(a_digest_pins_an_image_and_a_tag_does_not),
        FBT_TEST(a_pod_without_digests_gets_an_event_and_is_counted),
        FBT_TEST(a_pinned_pod_is_left_in_peace),
        FBT_TEST(a_changed_image_ends_the_count),
        FBT_TEST(a_deleted_pod_is_no_longer_counted),
        FBT_TEST(pods_of_exempt_namespaces_are_not_flagged),
        FBT_TEST(a_message_stays_short_whatever_the_pod_holds),
        FBT_TEST(a_container_without_an_image_is_not_flagged),
    };
    return fbt_run(TESTS, sizeof TESTS / sizeof *TESTS);
}
