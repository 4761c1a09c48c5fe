#include "format/parse-http-response.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HEAD_MAX 16384
#define LENGTH_DIGITS_MAX 9

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* End of the head, behind the empty line; 0: there is none yet. */
static size_t head_end(const char *data, size_t have) {
  for (size_t i = 3; i < have && i < HEAD_MAX; i++)
    if (data[i] == '\n' && data[i - 1] == '\r' && data[i - 2] == '\n' && data[i - 3] == '\r') return i + 1;
  return 0;
}

static bool same_name(const char *line, const char *name) {
  for (; *name != 0; line++, name++) {
    char c = *line >= 'A' && *line <= 'Z' ? (char)(*line + 32) : *line;
    if (c != *name) return false;
  }
  return true;
}

/* The value of content-length: one or more digits, with spaces around them. -1: it is not valid. */
static long length_value(const char *at, const char *end) {
  long value = 0;
  int digits = 0;
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  for (; at < end && is_digit(*at); at++) {
    if (++digits > LENGTH_DIGITS_MAX) return -1;
    value = value * 10 + (*at - '0');
  }
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  return digits > 0 && at == end ? value : -1;
}

/* Length of the body. -1: the head is not valid, or has no content-length. */
static long body_length(const char *head, size_t size) {
  long found = -1;
  const char *line = memchr(head, '\n', size), *end = head + size - 2;
  while (line != NULL && ++line < end) {
    const char *stop = memchr(line, '\r', (size_t)(end + 1 - line));
    if (stop == NULL || stop[1] != '\n') return -1;
    size_t length = (size_t)(stop - line);
    if (length > 18 && same_name(line, "transfer-encoding:")) return -1;
    if (length > 15 && same_name(line, "content-length:")) {
      long value = length_value(line + 15, stop);
      if (value < 0 || (found >= 0 && found != value)) return -1;
      found = value;
    }
    line = stop + 1;
  }
  return found;
}

long http_answer(const char *data, size_t have, size_t most, int *status, const char **body, size_t *length) {
  static const char version[] = "HTTP/1.1 ";
  size_t known = have < sizeof version - 1 ? have : sizeof version - 1;
  if (memcmp(data, version, known) != 0) return -1;
  size_t head = head_end(data, have);
  if (head == 0) return have < HEAD_MAX ? 0 : -1;
  const char *code = data + sizeof version - 1;
  if (head < sizeof version + 6 || !is_digit(code[0]) || !is_digit(code[1]) || !is_digit(code[2]) || (code[3] != ' ' && code[3] != '\r'))
    return -1;
  long size = body_length(data, head);
  if (size < 0 || (size_t)size > most) return -1;
  if (have - head < (size_t)size) return 0;
  *status = (code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0');
  *body = data + head;
  *length = (size_t)size;
  return (long)(head + (size_t)size);
}
