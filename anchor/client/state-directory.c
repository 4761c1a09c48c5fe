/* Finds the state directory, and checks that no other user controls its path: src/home/. If the check fails, Node repeats the
 * check and reports the fault. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"

#define LINKS_MAX 40
#define LONGEST_SOCKET "/instances/123456789012/runs/1234567890123456/sock" /* below the state directory */
#define MACOS_SOCKET_MOST 103 /* bytes of a socket's path */

#ifndef ON_MACOS /* a test sets it */
#ifdef __APPLE__
#define ON_MACOS 1
#else
#define ON_MACOS 0
#endif
#endif

bool resolve_path(const char *path, char out[CLIENT_PATH]) {
  char full[CLIENT_PATH];
  size_t used = 0;
  if (*path == '/') {
    if (snprintf(full, sizeof full, "%s", path) >= (int)sizeof full) return false;
  } else {
    if (getcwd(full, sizeof full) == NULL || full[0] != '/') return false;
    size_t length = strlen(full);
    if (snprintf(full + length, sizeof full - length, "/%s", path) >= (int)(sizeof full - length)) return false;
  }
  for (const char *at = full; *at != 0;) {
    size_t n = strcspn(++at, "/");
    if (n == 2 && at[0] == '.' && at[1] == '.') {
      while (used > 0 && out[--used] != '/') continue;
    } else if (n > 0 && !(n == 1 && at[0] == '.')) {
      out[used++] = '/';
      memcpy(out + used, at, n);
      used += n;
    }
    at += n;
  }
  if (used == 0) out[used++] = '/';
  out[used] = 0;
  return true;
}

static int in_home_of_macos(char path[CLIENT_PATH], const char *home) {
  int n = snprintf(path, CLIENT_PATH, "%s/Library/Application Support/holdfast", home);
  return n + strlen(LONGEST_SOCKET) <= MACOS_SOCKET_MOST ? n : snprintf(path, CLIENT_PATH, "%s/.holdfast", home);
}

bool find_state_directory(char out[CLIENT_PATH]) {
  const char *chosen = getenv("HOLDFAST_HOME"), *home = getenv("HOME"), *state = ON_MACOS ? NULL : getenv("XDG_STATE_HOME");
  char path[CLIENT_PATH];
  int n = -1;
  if (chosen != NULL && *chosen != 0) n = *chosen == '/' ? snprintf(path, sizeof path, "%s", chosen) : -1;
  else if (state != NULL && *state == '/') n = snprintf(path, sizeof path, "%s/holdfast", state);
  else if (home != NULL && *home == '/') n = ON_MACOS ? in_home_of_macos(path, home) : snprintf(path, sizeof path, "%s/.local/state/holdfast", home);
  return n > 0 && n < (int)sizeof path && resolve_path(path, out);
}

/* The members of a group in group(5) and passwd(5): true if the user of `uid` is the only one, and it is the group of that
 * user. */
static bool is_private_group(gid_t gid, uid_t uid) {
  char line[4096], owner[256] = "", *fields[4];
  bool primary = false, others = false;
  for (int pass = 0; pass < 3; pass++) { /* the name of the user; users with this group; members of the group */
    FILE *file = fopen(pass < 2 ? "/etc/passwd" : "/etc/group", "re");
    if (file == NULL) return false;
    while (fgets(line, sizeof line, file) != NULL) {
      char *rest = line;
      line[strcspn(line, "\n")] = 0;
      for (int i = 0; i < 4; i++) fields[i] = rest == NULL ? "" : strsep(&rest, ":");
      if (pass == 0 && owner[0] == 0 && strtoul(fields[2], NULL, 10) == uid) snprintf(owner, sizeof owner, "%s", fields[0]);
      if (pass == 1 && strtoul(fields[3], NULL, 10) == gid) {
        bool same = strcmp(fields[0], owner) == 0;
        primary |= same;
        others |= !same;
      }
      if (pass < 2 || strtoul(fields[2], NULL, 10) != gid) continue;
      for (char *members = fields[3], *name; (name = strsep(&members, ",")) != NULL;) others |= *name != 0 && strcmp(name, owner) != 0;
    }
    fclose(file);
  }
  return uid != 0 && owner[0] != 0 && primary && !others;
}

static bool is_trusted_entry(const struct stat *found, uid_t uid) {
  if (found->st_uid != uid && found->st_uid != 0) return false;
  if ((!S_ISDIR(found->st_mode) && !S_ISREG(found->st_mode)) || (found->st_mode & 022) == 0) return true;
  if (S_ISDIR(found->st_mode) && found->st_uid == 0 && (found->st_mode & S_ISVTX) != 0) return true;
  return (found->st_mode & 022) == 020 && found->st_uid == uid && is_private_group(found->st_gid, uid);
}

/* Checks each component of the path, and of the targets of its links. */
bool is_trusted_path(const char *path) {
  uid_t uid = geteuid();
  char rest[2 * CLIENT_PATH], at[CLIENT_PATH] = "", target[CLIENT_PATH];
  struct stat found;
  int links = 0;
  if (lstat("/", &found) != 0 || !is_trusted_entry(&found, uid)) return false;
  if (snprintf(rest, sizeof rest, "%s", path) >= CLIENT_PATH) return false;
  while (rest[0] != 0) {
    size_t skip = strspn(rest, "/"), n = strcspn(rest + skip, "/"), used = strlen(at);
    if (n == 0) return true;
    char name[NAME_MAX + 1];
    if (n > NAME_MAX || used + n + 2 > sizeof at) return false;
    memcpy(name, rest + skip, n);
    name[n] = 0;
    memmove(rest, rest + skip + n, strlen(rest + skip + n) + 1);
    if (strcmp(name, ".") == 0) continue;
    if (strcmp(name, "..") == 0) {
      char *slash = strrchr(at, '/');
      if (slash != NULL) *slash = 0;
      continue;
    }
    at[used] = '/';
    memcpy(at + used + 1, name, n + 1);
    if (lstat(at, &found) != 0 || !is_trusted_entry(&found, uid)) return false;
    if (!S_ISLNK(found.st_mode)) continue;
    ssize_t length = readlink(at, target, sizeof target - 1);
    if (length <= 0 || ++links > LINKS_MAX || (size_t)length + strlen(rest) + 2 > sizeof rest) return false;
    target[length] = 0;
    at[target[0] == '/' ? 0 : used] = 0;
    memmove(rest + length + 1, rest, strlen(rest) + 1);
    memcpy(rest, target, (size_t)length);
    rest[length] = '/';
  }
  return true;
}

long read_own_file(const char *path, char *out, size_t size) {
  struct stat found;
  size_t used = 0;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  bool own = fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid();
  while (own && used < size) {
    ssize_t n = read(fd, out + used, size - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) own = false;
    if (n <= 0) break;
    used += (size_t)n;
  }
  close(fd);
  if (!own || used == size) return -1;
  while (used > 0 && strchr(" \t\r\n", out[used - 1]) != NULL) used--;
  out[used] = 0;
  return memchr(out, 0, used) == NULL ? (long)used : -1;
}
