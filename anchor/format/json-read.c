#include "format/json-read.h"

#include <string.h>

#include "format/json-write.h"
#include "format/parse-number.h"

#define DEPTH_MAX 64
#define SAFE_INTEGER_MAX ((UINT64_C(1) << 53) - 1)

struct cursor {
  const char *at, *end;
};

static void skip_space(struct cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

static bool take(struct cursor *c, char wanted) {
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

static bool take_literal(struct cursor *c, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
  c->at += n;
  return true;
}

static int hex(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  char lower = (char)(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static long hex4(const char *at, const char *end) {
  long value = 0;
  if (end - at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    if (hex(at[i]) < 0) return -1;
    value = value * 16 + hex(at[i]);
  }
  return value;
}

static bool take_string(struct cursor *c) {
  if (!take(c, '"')) return false;
  while (c->at < c->end) {
    unsigned char byte = (unsigned char)*c->at;
    if (byte == '"') {
      c->at++;
      return true;
    }
    if (byte < 0x20) return false;
    if (byte == '\\') {
      if (c->end - c->at < 2 || strchr("\"\\/bfnrtu", c->at[1]) == NULL || c->at[1] == 0) return false;
      if (c->at[1] == 'u' && hex4(c->at + 2, c->end) < 0) return false;
      c->at += c->at[1] == 'u' ? 6 : 2;
      continue;
    }
    size_t n = utf8_length(c->at, (size_t)(c->end - c->at));
    if (n == 0) return false;
    c->at += n;
  }
  return false;
}

static bool take_digits(struct cursor *c) {
  const char *from = c->at;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
  return c->at > from;
}

static bool take_number(struct cursor *c) {
  (void)take(c, '-');
  const char *first = c->at;
  if (!take_digits(c) || (*first == '0' && c->at - first > 1)) return false;
  if (take(c, '.') && !take_digits(c)) return false;
  if (take(c, 'e') || take(c, 'E')) {
    if (!take(c, '+')) (void)take(c, '-');
    return take_digits(c);
  }
  return true;
}

static bool take_value(struct cursor *c, int depth);

static bool take_list(struct cursor *c, char close, bool keys, int depth) {
  c->at++;
  skip_space(c);
  if (take(c, close)) return true;
  for (;;) {
    skip_space(c);
    if (keys) {
      if (!take_string(c)) return false;
      skip_space(c);
      if (!take(c, ':')) return false;
    }
    if (!take_value(c, depth + 1)) return false;
    if (take(c, close)) return true;
    if (!take(c, ',')) return false;
  }
}

/* A value and the spaces around it. */
static bool take_value(struct cursor *c, int depth) {
  skip_space(c);
  if (c->at == c->end || depth > DEPTH_MAX) return false;
  bool valid;
  switch (*c->at) {
    case '{': valid = take_list(c, '}', true, depth); break;
    case '[': valid = take_list(c, ']', false, depth); break;
    case '"': valid = take_string(c); break;
    case 't': valid = take_literal(c, "true"); break;
    case 'f': valid = take_literal(c, "false"); break;
    case 'n': valid = take_literal(c, "null"); break;
    default: valid = take_number(c);
  }
  skip_space(c);
  return valid;
}

bool json_parse(const char *text, size_t length, struct json_value *out) {
  struct cursor c = {.at = text, .end = text + length};
  *out = (struct json_value){0};
  if (!take_value(&c, 0) || c.at != c.end) return false;
  while (length > 0 && strchr(" \t\n\r", *text) != NULL) text++, length--;
  while (length > 0 && strchr(" \t\n\r", text[length - 1]) != NULL) length--;
  *out = (struct json_value){.at = text, .length = length};
  return true;
}

/* Takes one value, without the spaces around it. */
static struct json_value value_at(struct cursor *c) {
  skip_space(c);
  const char *from = c->at;
  if (!take_value(c, 0)) return (struct json_value){0};
  const char *to = c->at;
  while (to > from && strchr(" \t\n\r", to[-1]) != NULL) to--;
  return (struct json_value){.at = from, .length = (size_t)(to - from)};
}

struct json_value json_member(struct json_value object, const char *key) {
  struct json_value found = {0};
  if (object.at == NULL || *object.at != '{') return found;
  struct cursor c = {.at = object.at + 1, .end = object.at + object.length - 1};
  for (;;) {
    char name[64];
    struct json_value named = value_at(&c);
    if (named.at == NULL || !take(&c, ':')) return found;
    struct json_value value = value_at(&c);
    if (json_text(named, name, sizeof name) && strcmp(name, key) == 0) found = value;
    if (!take(&c, ',')) return found;
  }
}

struct json_value json_next(struct json_value array, size_t *at) {
  if (array.at == NULL || *array.at != '[' || *at + 2 > array.length) return (struct json_value){0};
  struct cursor c = {.at = array.at + 1 + *at, .end = array.at + array.length - 1};
  struct json_value value = value_at(&c);
  (void)take(&c, ',');
  *at = (size_t)(c.at - array.at - 1);
  return value;
}

bool json_is(struct json_value value, const char *literal) {
  return value.at != NULL && value.length == strlen(literal) && memcmp(value.at, literal, value.length) == 0;
}

bool json_integer(struct json_value value, uint64_t *out) {
  char digits[20];
  if (value.at == NULL || value.length == 0 || value.length >= sizeof digits) return false;
  memcpy(digits, value.at, value.length);
  digits[value.length] = 0;
  return number_within(digits, SAFE_INTEGER_MAX, out);
}

/* Appends one character as UTF-8. */
static size_t put_character(char *out, unsigned long code) {
  if (code < 0x80) return out[0] = (char)code, 1;
  if (code < 0x800) return out[0] = (char)(0xc0 | code >> 6), out[1] = (char)(0x80 | (code & 0x3f)), 2;
  if (code < 0x10000) {
    out[0] = (char)(0xe0 | code >> 12), out[1] = (char)(0x80 | (code >> 6 & 0x3f)), out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | code >> 18), out[1] = (char)(0x80 | (code >> 12 & 0x3f));
  out[2] = (char)(0x80 | (code >> 6 & 0x3f)), out[3] = (char)(0x80 | (code & 0x3f));
  return 4;
}

/* The character of an escape after the backslash, which `at` passes. A lone surrogate becomes U+FFFD. */
static unsigned long unescape(const char **at, const char *end) {
  static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  char name = *(*at)++;
  if (name != 'u') return (unsigned char)meant[strchr(names, name) - names];
  long code = hex4(*at, end);
  *at += 4;
  if (code < 0xd800 || code > 0xdfff) return (unsigned long)code;
  long low = code <= 0xdbff && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u' ? hex4(*at + 2, end) : -1;
  if (low < 0xdc00 || low > 0xdfff) return 0xfffd;
  *at += 6;
  return 0x10000 + ((unsigned long)(code - 0xd800) << 10) + (unsigned long)(low - 0xdc00);
}

bool json_text(struct json_value value, char *out, size_t size) {
  size_t used = 0;
  if (value.at == NULL || *value.at != '"') return false;
  const char *end = value.at + value.length - 1;
  for (const char *at = value.at + 1; at < end;) {
    char character[4];
    size_t n = 1;
    if (*at == '\\') {
      at++;
      unsigned long code = unescape(&at, end);
      if (code == 0) return false;
      n = put_character(character, code);
    } else {
      character[0] = *at++;
    }
    if (size - used <= n) return false;
    memcpy(out + used, character, n);
    used += n;
  }
  if (used >= size) return false;
  out[used] = 0;
  return true;
}
