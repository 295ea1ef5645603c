/* The process that holds the cluster: `flyball test-server`. It ends with the tests, when its input is closed. */
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *calls, *replies;
static int cluster;

static void fail(const char *name, const char *why) {
    fprintf(stderr, "%s: %s\n", name, why);
    exit(1);
}

static void start(void) {
    const char *program = getenv("FLYBALL");
    if (program == NULL || !*program)
        program = "flyball";
    int input[2], output[2];
    if (pipe(input) != 0 || pipe(output) != 0)
        fail(program, "can't create a pipe");
    /* A write to a process that has ended fails. The missing reply reports that. */
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        dup2(input[0], STDIN_FILENO);
        dup2(output[1], STDOUT_FILENO);
        int all[] = {input[0], input[1], output[0], output[1]};
        for (size_t i = 0; i < 4; i++)
            close(all[i]);
        execlp(program, program, "test-server", (char *)NULL);
        fprintf(stderr, "tests need the program flyball: put it on the PATH, or set the variable FLYBALL to its path\n");
        _exit(127);
    }
    close(input[0]);
    close(output[1]);
    calls = fdopen(input[1], "w");
    replies = fdopen(output[0], "r");
    if (child < 0 || calls == NULL || replies == NULL)
        fail(program, "can't be started");
}

static cJSON *ask(const char *name, cJSON *arguments) {
    static char *line;
    static size_t size;
    if (calls == NULL)
        start();
    cJSON *call = cJSON_CreateObject();
    cJSON_AddNumberToObject(call, "cluster", cluster);
    cJSON_AddStringToObject(call, "call", name);
    cJSON_AddItemToObject(call, "with", arguments != NULL ? arguments : cJSON_CreateNull());
    fprintf(calls, "%s\n", fb_print(call));
    fflush(calls);
    ssize_t length = getline(&line, &size, replies);
    if (length < 0)
        fail(name, "flyball test-server has ended");
    return fb_parse_bytes(line, (size_t)length);
}

const fb_error *server_call(const char *name, cJSON *arguments, cJSON **result) {
    cJSON *reply = ask(name, arguments);
    if (fb_at(reply, "mistake") != NULL)
        fail(name, fb_text(reply, "mistake"));
    if (result != NULL)
        *result = fb_at(reply, "ok");
    return server_error(reply);
}

const fb_error *server_error(const cJSON *reply) {
    static const char *const EFFECTS[] = {"none", "refused", "unknown"};
    cJSON *document = fb_at(reply, "error");
    if (document == NULL)
        return NULL;
    fb_effect effect = FB_EFFECT_NONE;
    while (effect < FB_EFFECT_UNKNOWN && strcmp(fb_text(document, "effect"), EFFECTS[effect]) != 0)
        effect++;
    fb_error *error = fb_new_error((int)fb_number(document, "status"), fb_text(document, "reason"), fb_text(document, "message"), effect);
    error->retry_after_ms = (uint32_t)fb_number(document, "retryAfterMs");
    return error;
}

void server_new_cluster(void) {
    cJSON *number;
    server_call("new", NULL, &number);
    cluster = number->valueint;
}

void server_open_recorded(const char *path, int line) {
    cJSON *number, *arguments = cJSON_CreateObject();
    cJSON_AddStringToObject(arguments, "file", path);
    cJSON_AddNumberToObject(arguments, "line", line);
    server_call("replay", arguments, &number);
    cluster = number->valueint;
}
