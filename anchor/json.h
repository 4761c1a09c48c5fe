/* Writes JSON into fixed memory, and files by rename. Nothing here parses JSON. */
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

/* Writes `text` unchanged: punctuation and keys. */
void json_raw(struct json *json, const char *text);
/* Writes a quoted string; control characters and bytes that are not UTF-8 are escaped. */
void json_string(struct json *json, const char *text);
void json_number(struct json *json, uint64_t value);
/* Write `key`, which contains the punctuation, and the value. A NULL string becomes null. */
void json_key_number(struct json *json, const char *key, uint64_t value);
void json_key_string(struct json *json, const char *key, const char *value);
/* Replace the file atomically: a reader never sees half a file. */
bool json_save(int dir, const char *name, const struct json *json);
bool file_save(int dir, const char *name, const void *data, size_t length);

#endif
