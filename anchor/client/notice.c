/* Messages on stderr, with the same format as those of the command line in Node. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"

/* Colours only on a terminal, and not with NO_COLOR. */
static bool has_colours(void) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(2) && (no == NULL || *no == 0) && (term == NULL || strcmp(term, "dumb") != 0);
}

static void say(const char *before, const char *after, const char *format, va_list values) {
  char text[8300], line[8400];
  vsnprintf(text, sizeof text, format, values);
  bool colours = has_colours();
  /* A terminal in raw mode needs a carriage return. */
  int n = snprintf(line, sizeof line, "%sholdfast: %s%s%s", colours ? before : "", text, colours ? after : "", isatty(2) ? "\r\n" : "\n");
  (void)!write(2, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

void notice(const char *format, ...) {
  va_list values;
  va_start(values, format);
  say("\x1b[33m", "\x1b[39m", format, values);
  va_end(values);
}

void notice_red(const char *format, ...) {
  va_list values;
  va_start(values, format);
  say("\x1b[31m", "\x1b[39m", format, values);
  va_end(values);
}

void notice_dim(const char *format, ...) {
  va_list values;
  va_start(values, format);
  say("\x1b[2m", "\x1b[22m", format, values);
  va_end(values);
}

/* passwd(5) only: a statically linked program cannot ask other sources. */
bool user_name(char *out, size_t size) {
  char line[4096];
  bool found = false;
  FILE *file = fopen("/etc/passwd", "re");
  if (file == NULL) return false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    char *rest = line, *name = strsep(&rest, ":");
    if (rest == NULL || strsep(&rest, ":") == NULL || rest == NULL || (uid_t)strtoul(rest, NULL, 10) != getuid()) continue;
    found = snprintf(out, size, "%s", name) < (int)size && *name != 0;
  }
  fclose(file);
  return found;
}

/* The two largest units: `1h30m`, `2.5s`, `40ms`. */
void format_duration(uint64_t ms, char *out, size_t size) {
  static const struct {
    uint64_t ms;
    char name;
  } units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
  if (ms < 1000) {
    snprintf(out, size, "%ums", (unsigned)ms);
    return;
  }
  if (ms < 10000) {
    unsigned tenths = (unsigned)(ms / 100);
    snprintf(out, size, tenths % 10 == 0 ? "%us" : "%u.%us", tenths / 10, tenths % 10);
    return;
  }
  int large = ms < 3600000 ? 2 : ms < 86400000 ? 1 : 0;
  uint64_t whole = ms / units[large].ms, rest = ms % units[large].ms / units[large + 1].ms;
  int n = whole > 0 ? snprintf(out, size, "%llu%c", (unsigned long long)whole, units[large].name) : 0;
  if (rest > 0 || whole == 0) snprintf(out + n, size - (size_t)n, "%llu%c", (unsigned long long)rest, units[large + 1].name);
}

/* `1.5 MiB`; whole bytes below one KiB. */
void format_size(uint64_t bytes, char *out, size_t size) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int at = 0;
  while (value >= 1024 && at < 4) value /= 1024, at++;
  double rounded = at == 0 || value >= 100 ? (double)(uint64_t)(value + 0.5) : (double)(uint64_t)(value * 10 + 0.5) / 10;
  snprintf(out, size, "%.10g %s", rounded, units[at]);
}
