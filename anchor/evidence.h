/* How evidence of processes is printed: one JSON line each. */
#ifndef EVIDENCE_H
#define EVIDENCE_H

#include "json.h"
#include "os.h"

/* An empty line in the one buffer there is for them: holds all that any mode prints of one process. */
struct json evidence_begin(void);
/* Ends the line and hands it to stdout, which may keep it for a while. */
void evidence_print(struct json *json);

void put_number(struct json *json, const char *key, uint64_t value);
/* NULL is null. */
void put_text(struct json *json, const char *key, const char *value);
/* pid, startTime, uniqueId */
void put_identity(struct json *json, const struct identity *id);
/* state, ppid, pgid, sid, uid, command */
void put_facts(struct json *json, const struct member *member);
/* At most 64 words and 8 KiB of the command line. */
void put_argv(struct json *json, const char *key, pid_t pid);
/* A variable of the environment that was loaded last, cut at `size` - 1 bytes. */
void put_variable(struct json *json, const char *key, const char *name, char *memory, size_t size);

#endif
