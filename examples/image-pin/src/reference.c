/* References of images, by the grammar of the distribution project. */
#include "reference.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const size_t FEWEST_DIGITS = 32;

/* Returns the text after the name of an algorithm, such as `sha256` or `sha256+b64`; NULL if there is no such name. */
static const char *after_algorithm(const char *at) {
    for (;;) {
        if (!isalpha((unsigned char)*at))
            return NULL;
        while (isalnum((unsigned char)*at))
            at++;
        if (*at == '\0' || strchr("+._-", *at) == NULL)
            return at;
        at++;
    }
}

bool has_digest(const char *image) {
    const char *at = strrchr(image, '@');
    if (at == NULL || at == image)
        return false;
    const char *digits = after_algorithm(at + 1);
    if (digits == NULL || *digits != ':')
        return false;
    digits++;
    size_t count = strspn(digits, "0123456789abcdefABCDEF");
    return count >= FEWEST_DIGITS && digits[count] == '\0';
}
