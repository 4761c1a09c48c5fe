/* Prints evidence about processes, one JSON line each. */
#ifndef PROCESS_JSON_H
#define PROCESS_JSON_H

#include "format/json-write.h"
#include "os/os.h"

/* Starts a line in the only buffer, which holds all that any mode prints about one process. */
struct json evidence_begin(void);
/* Ends the line and writes it to stdout, which may buffer it. */
void evidence_print(struct json *json);

/* pid, startTime, uniqueId */
void json_identity_fields(struct json *json, const struct identity *id);
/* state, ppid, pgid, sid, uid, command */
void json_process_facts(struct json *json, const struct member *member);
/* At most 64 words and 8 KiB of the command line. */
void json_argv(struct json *json, const char *key, os_pid pid);
/* Writes a variable of the environment loaded last, cut at `size` - 1 bytes. */
void json_variable(struct json *json, const char *key, const char *name, char *memory, size_t size);

#endif
