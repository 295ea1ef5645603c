/* The memory of one call: chunks that are released together when it returns. cJSON allocates from them, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { CHUNK = 64 * 1024, ALIGNMENT = 16 };

typedef struct chunk {
    struct chunk *next;
    size_t used;
    size_t size;
    /* Keeps the allocated memory after it aligned. */
    size_t padding;
} chunk;

static chunk *chunks;

static void unused(void *pointer) {
    (void)pointer;
}

void *fb_alloc(size_t size) {
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (chunks == NULL || chunks->size - chunks->used < size) {
        size_t total = size > CHUNK ? size : CHUNK;
        chunk *fresh = malloc(sizeof(chunk) + total);
        if (fresh == NULL) {
            fb_log(FB_LOG_ERROR, "memory is exhausted");
            abort();
        }
        *fresh = (chunk){.next = chunks, .size = total};
        chunks = fresh;
    }
    char *memory = (char *)(chunks + 1) + chunks->used;
    chunks->used += size;
    return memset(memory, 0, size);
}

void fb_begin_call(void) {
    cJSON_Hooks hooks = {.malloc_fn = fb_alloc, .free_fn = unused};
    cJSON_InitHooks(&hooks);
}

void fb_end_call(void) {
    while (chunks != NULL && (chunks->next != NULL || chunks->size > CHUNK)) {
        chunk *next = chunks->next;
        free(chunks);
        chunks = next;
    }
    if (chunks != NULL)
        chunks->used = 0;
}

char *fb_copy(const char *text, size_t length) {
    char *copy = fb_alloc(length + 1);
    if (length > 0)
        memcpy(copy, text, length);
    return copy;
}

char *fb_vformat(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = fb_alloc(length < 0 ? 1 : (size_t)length + 1);
    if (length > 0)
        vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

char *fb_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = fb_vformat(format, arguments);
    va_end(arguments);
    return text;
}
