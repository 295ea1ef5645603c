/* Runs tests. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fake.h"

static int failures;

bool fbt_same(const char *left, const char *right) {
    return left != NULL && right != NULL ? strcmp(left, right) == 0 : left == right;
}

void fbt_check(bool holds, const char *file, int line, const char *format, ...) {
    if (holds)
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    failures++;
}

int fbt_run(const fbt_test *tests, size_t count) {
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        int before = failures;
        tests[i].run();
        bool passed = failures == before;
        failed += !passed;
        printf("%s %s\n", passed ? "ok    " : "FAILED", tests[i].name);
    }
    printf("%d of %zu tests failed\n", failed, count);
    return failed > 0;
}
