#include "format/parse-number.h"

#include <stddef.h>

const char *number_at(const char *text, uint64_t *out) {
  uint64_t number = 0;
  if (*text < '0' || *text > '9') return NULL;
  for (; *text >= '0' && *text <= '9'; text++) {
    uint64_t digit = (uint64_t)(*text - '0');
    if (number > (UINT64_MAX - digit) / 10) return NULL;
    number = number * 10 + digit;
  }
  *out = number;
  return text;
}

bool number_within(const char *text, uint64_t most, uint64_t *out) {
  uint64_t number;
  const char *rest = number_at(text, &number);
  if (rest == NULL || *rest != 0 || number > most) return false;
  *out = number;
  return true;
}
