#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>

/* Whether the reference of an image ends with a digest: `@ALGORITHM:HEX`, with at least 32 hexadecimal digits. */
bool has_digest(const char *image);

#endif
