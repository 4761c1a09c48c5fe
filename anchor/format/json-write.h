/* Writes JSON into fixed memory. Nothing here parses JSON. */
#ifndef JSON_WRITE_H
#define JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
  char *data;
  size_t size, used;
  bool overflow;
};

/* Length of the UTF-8 sequence at the start of `text`, 0 if there is none. Overlong forms and surrogates are invalid. */
size_t utf8_length(const char *text, size_t length);

/* Writes `text` unchanged: punctuation and keys. */
void json_raw(struct json *json, const char *text);
/* Writes a quoted string; control characters and bytes that are not UTF-8 are escaped. */
void json_string(struct json *json, const char *text);
void json_number(struct json *json, uint64_t value);
/* Write `key`, which contains the punctuation, and the value. A NULL string becomes null. */
void json_key_number(struct json *json, const char *key, uint64_t value);
void json_key_string(struct json *json, const char *key, const char *value);
/* Replaces the file atomically; false also if the text did not fit. */
bool json_save(int dir, const char *name, const struct json *json);

#endif
