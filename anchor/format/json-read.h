/* A strict parser of JSON (RFC 8259) from other processes. Pure functions over memory: a value is a piece of the text, and nothing is
 * allocated. */
#ifndef JSON_READ_H
#define JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_value {
  const char *at; /* NULL: no value; every function accepts it, and fails or returns no value */
  size_t length;
};

/* False unless the whole text is one valid value. The other functions need a value out of a text for which this one is true. */
bool json_parse(const char *text, size_t length, struct json_value *out);
/* The value of a key of an object. The last one wins if the key is repeated. */
struct json_value json_member(struct json_value object, const char *key);
/* The next element of an array; `at` starts at 0. */
struct json_value json_next(struct json_value array, size_t *at);
bool json_is(struct json_value value, const char *literal);
/* A whole number from 0 to 2^53 - 1. */
bool json_integer(struct json_value value, uint64_t *out);
/* Decodes a string as UTF-8 with a NUL at the end. False if it is not a string, does not fit or contains NUL. */
bool json_text(struct json_value value, char *out, size_t size);

#endif
