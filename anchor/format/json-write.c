#include "format/json-write.h"

#include <stdio.h>
#include <string.h>

#include "os/os.h"

static void put(struct json *json, const char *data, size_t length) {
  if (json->overflow || json->size - json->used <= length) {
    json->overflow = true;
    return;
  }
  memcpy(json->data + json->used, data, length);
  json->used += length;
  json->data[json->used] = 0;
}

void json_raw(struct json *json, const char *text) { put(json, text, strlen(text)); }

size_t utf8_length(const char *text, size_t length) {
  const unsigned char *s = (const unsigned char *)text;
  if (length == 0) return 0;
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : 0;
  if (n > length) return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0))) return 0;
  if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))) return 0;
  return n;
}

void json_string(struct json *json, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  put(json, "\"", 1);
  while (*s != 0) {
    size_t n = utf8_length((const char *)s, strnlen((const char *)s, 4));
    if (n == 0 || *s < 0x20 || *s == 0x7f || *s == '"' || *s == '\\') {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", *s);
      put(json, escape, 6);
      s++;
    } else {
      put(json, (const char *)s, n);
      s += n;
    }
  }
  put(json, "\"", 1);
}

void json_number(struct json *json, uint64_t value) {
  char digits[24];
  put(json, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value));
}

void json_key_number(struct json *json, const char *key, uint64_t value) {
  json_raw(json, key);
  json_number(json, value);
}

void json_key_string(struct json *json, const char *key, const char *value) {
  json_raw(json, key);
  if (value == NULL) json_raw(json, "null");
  else json_string(json, value);
}

bool json_save(int dir, const char *name, const struct json *json) {
  return !json->overflow && os_file_save(dir, name, json->data, json->used);
}
