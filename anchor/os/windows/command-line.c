/* Windows: the command line, the environment and the program of a new process. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text that grows; `data` is NULL after a failure (errno is set). */
struct text {
  WCHAR *data;
  size_t used, room;
  bool failed;
};

static void put(struct text *text, WCHAR c) {
  if (text->used == text->room) {
    size_t room = text->room == 0 ? 256 : text->room * 2;
    WCHAR *more = text->failed ? NULL : realloc(text->data, room * sizeof *more);
    if (more == NULL) {
      text->failed = true;
      errno = ENOMEM;
      return;
    }
    text->data = more;
    text->room = room;
  }
  text->data[text->used++] = c;
}

static WCHAR *finish(struct text *text) {
  put(text, 0);
  if (!text->failed) return text->data;
  free(text->data);
  return NULL;
}

/* A copy to be freed; NULL and errno. */
static WCHAR *widen(const char *text) {
  int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  errno = EILSEQ;
  if (length <= 0) return NULL;
  WCHAR *wide = malloc((size_t)length * sizeof *wide);
  if (wide != NULL) (void)MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, length);
  return wide;
}

/* As Microsoft's C runtime parses it: backslashes are literal unless a quote follows. */
static void put_quoted(struct text *text, const WCHAR *word) {
  if (word[0] != 0 && wcspbrk(word, L" \t\n\v\"") == NULL) {
    for (; *word != 0; word++) put(text, *word);
    return;
  }
  put(text, L'"');
  for (;;) {
    size_t backslashes = 0;
    while (*word == L'\\') backslashes++, word++;
    size_t copies = *word == 0 ? 2 * backslashes : *word == L'"' ? 2 * backslashes + 1 : backslashes;
    for (size_t i = 0; i < copies; i++) put(text, L'\\');
    if (*word == 0) break;
    put(text, *word++);
  }
  put(text, L'"');
}

/* The program itself is parsed by simpler rules: up to the next quote. */
WCHAR *command_line(char *const *argv, bool verbatim) {
  struct text text = {0};
  for (size_t i = 0; argv[i] != NULL; i++) {
    WCHAR *word = widen(argv[i]);
    if (word == NULL) {
      free(text.data);
      return NULL;
    }
    if (i > 0) put(&text, L' ');
    if (i > 0 && verbatim)
      for (const WCHAR *at = word; *at != 0; at++) put(&text, *at);
    else put_quoted(&text, word);
    free(word);
  }
  WCHAR *line = finish(&text);
  if (line == NULL || text.used <= 32767) return line;
  free(line);
  errno = E2BIG;
  return NULL;
}

/* ---- environment ---- */

static int compare_names(const void *a, const void *b) {
  const WCHAR *one = *(WCHAR *const *)a, *other = *(WCHAR *const *)b;
  const WCHAR *end = wcschr(one + (*one == L'='), L'='), *stop = wcschr(other + (*other == L'='), L'=');
  int one_length = end == NULL ? -1 : (int)(end - one), other_length = stop == NULL ? -1 : (int)(stop - other);
  return CompareStringOrdinal(one, one_length, other, other_length, TRUE) - CSTR_EQUAL;
}

/* Without these, programs cannot load system libraries or create sockets. */
static const WCHAR *const required[] = {L"SystemRoot", L"SystemDrive"};

static bool has_variable(WCHAR *const *list, size_t count, const WCHAR *name) {
  size_t length = wcslen(name);
  for (size_t i = 0; i < count; i++)
    if (_wcsnicmp(list[i], name, length) == 0 && list[i][length] == L'=') return true;
  return false;
}

static WCHAR *own_variable(const WCHAR *name) {
  WCHAR value[512], *text = malloc(640 * sizeof *text);
  DWORD length = GetEnvironmentVariableW(name, value, 512);
  if (text != NULL && length > 0 && length < 512 && swprintf(text, 640, L"%ls=%ls", name, value) > 0) return text;
  free(text);
  return NULL;
}

WCHAR *environment_block(char *const *env) {
  struct text text = {0};
  size_t count = 0, filled = 0;
  while (env[count] != NULL) count++;
  WCHAR **list = calloc(count + sizeof required / sizeof *required, sizeof *list);
  if (list == NULL) return NULL;
  while (filled < count && (list[filled] = widen(env[filled])) != NULL) filled++;
  bool complete = filled == count;
  for (size_t i = 0; i < sizeof required / sizeof *required && complete; i++)
    if (!has_variable(list, filled, required[i]) && (list[filled] = own_variable(required[i])) != NULL) filled++;
  if (complete) qsort(list, filled, sizeof *list, compare_names);
  for (size_t i = 0; i < filled; i++) {
    for (const WCHAR *at = list[i]; complete && *at != 0; at++) put(&text, *at);
    if (complete && list[i][0] != 0) put(&text, 0);
    free(list[i]);
  }
  free(list);
  if (complete && text.used == 0) put(&text, 0); /* an empty block has two terminators */
  if (complete) return finish(&text);
  free(text.data);
  return NULL;
}

/* ---- program ---- */

static bool is_batch(const WCHAR *path) {
  size_t length = wcslen(path);
  return length > 4 && (_wcsicmp(path + length - 4, L".bat") == 0 || _wcsicmp(path + length - 4, L".cmd") == 0);
}

static WCHAR *search_path(char *const *env) {
  for (; *env != NULL; env++)
    if (_strnicmp(*env, "PATH=", 5) == 0) return widen(*env + 5);
  return widen("");
}

/* The file that Windows opens for this name: without dots and spaces at its end, and, if it is long, with the prefix that
 * lifts the limit. */
static bool full_path(const WCHAR *name, WCHAR *out, size_t size) {
  WCHAR plain[WIDE_SIZE];
  DWORD length = GetFullPathNameW(name, WIDE_SIZE, plain, NULL);
  if (length == 0 || length >= WIDE_SIZE) return false;
  const bool share = plain[0] == L'\\', prefixed = share && (plain[2] == L'?' || plain[2] == L'.');
  const WCHAR *prefix = length < MAX_PATH || prefixed ? L"" : share ? L"\\\\?\\UNC" : L"\\\\?\\";
  return swprintf(out, size, L"%ls%ls", prefix, share && prefix[0] != 0 ? plain + 1 : plain) > 0;
}

/* The caller has resolved the program: a path is absolute, because this process has another directory, and a bare name is
 * searched only for .exe. A batch file is refused: cmd.exe would run it, and would parse the quoted arguments by other
 * rules. */
bool find_program(const char *name, char *const *env, WCHAR *out, size_t size) {
  WCHAR *wide = widen(name), *path = NULL, place[WIDE_SIZE];
  bool found = false;
  if (wide == NULL) return false;
  if (wcspbrk(wide, L"\\/:") != NULL) {
    found = os_is_absolute(name) && full_path(wide, out, size);
  } else if ((path = search_path(env)) != NULL && path[0] != 0) {
    DWORD length = SearchPathW(path, wide, L".exe", WIDE_SIZE, place, NULL);
    found = length > 0 && length < WIDE_SIZE && full_path(place, out, size);
  }
  free(path);
  free(wide);
  DWORD attributes = found ? GetFileAttributesW(out) : INVALID_FILE_ATTRIBUTES;
  found = attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
  errno = found ? ENOEXEC : ENOENT;
  return found && !is_batch(out);
}
