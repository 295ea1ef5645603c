/* Paths in objects. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static cJSON *below(const cJSON *object, const char *name, size_t length) {
    for (cJSON *child = cJSON_IsObject(object) ? object->child : NULL; child != NULL; child = child->next)
        if (strncmp(child->string, name, length) == 0 && child->string[length] == '\0')
            return child;
    return NULL;
}

cJSON *fb_at(const cJSON *object, const char *path) {
    while (object != NULL && *path) {
        size_t length = strcspn(path, ".");
        object = below(object, path, length);
        path += length + (path[length] == '.');
    }
    return (cJSON *)object;
}

const char *fb_text(const cJSON *object, const char *path) {
    return fb_or_empty(cJSON_GetStringValue(fb_at(object, path)));
}

int64_t fb_number(const cJSON *object, const char *path) {
    cJSON *found = fb_at(object, path);
    return cJSON_IsNumber(found) ? (int64_t)found->valuedouble : 0;
}

bool fb_flag(const cJSON *object, const char *path) {
    return cJSON_IsTrue(fb_at(object, path));
}

const char *fb_label(const cJSON *object, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fb_at(object, "metadata.labels"), name));
}

const char *fb_annotation(const cJSON *object, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fb_at(object, "metadata.annotations"), name));
}

void fb_set_text(cJSON *object, const char *path, const char *value) {
    fb_set(object, path, cJSON_CreateString(value));
}

void fb_set(cJSON *object, const char *path, cJSON *value) {
    for (;;) {
        size_t length = strcspn(path, ".");
        char *name = fb_copy(path, length);
        cJSON *child = below(object, name, length);
        if (path[length] == '\0') {
            if (child != NULL)
                cJSON_DeleteItemFromObjectCaseSensitive(object, name);
            cJSON_AddItemToObject(object, name, value);
            return;
        }
        object = child != NULL ? child : cJSON_AddObjectToObject(object, name);
        path += length + 1;
    }
}

cJSON *fb_parse_bytes(const char *bytes, size_t length) {
    return cJSON_ParseWithLength(bytes, length);
}

cJSON *fb_parse(const char *text) {
    cJSON *value = cJSON_Parse(text);
    if (value == NULL) {
        fb_log(FB_LOG_ERROR, "malformed JSON: %s", text);
        abort();
    }
    return value;
}

char *fb_print(const cJSON *value) {
    return cJSON_PrintUnformatted(value);
}

fb_key fb_key_of(const cJSON *object) {
    return (fb_key){.ns = fb_text(object, "metadata.namespace"), .name = fb_text(object, "metadata.name")};
}
