/* Writing JSON into fixed memory, and files by rename. Nothing here reads JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
  char *data;
  size_t size, used;
  bool overflow;
};

/* `text` as it is: punctuation and keys. */
void json_raw(struct json *json, const char *text);
/* A quoted string; control characters and bytes that are not UTF-8 are escaped. */
void json_string(struct json *json, const char *text);
void json_number(struct json *json, uint64_t value);
/* Whole or not at all: a reader never sees half a file. */
bool json_save(int dir, const char *name, const struct json *json);
bool file_save(int dir, const char *name, const void *data, size_t length);

#endif
