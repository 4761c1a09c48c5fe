/* Windows: named pipes in place of local sockets. The pipe's name is a hash of the socket's path, which both sides
 * compute. A file at the path shows that the pipe exists, and has a key that only this user can read.
 *
 * While no process of ours listens, another user can create a pipe of this name. So the first 32 bytes of a client are a
 * random challenge, and it sends nothing more before it has received the HMAC of the challenge with the key. */
#include "os/windows/windows.h"

#include <bcrypt.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIPE_SIZE (64u * 1024)
#define NAME_SIZE 64
#define KEY_SIZE 32

/* Windows finds a file by any case and either slash. Only ASCII letters are lower-cased, so that both sides need no table. */
static bool pipe_name(const char *path, WCHAR out[NAME_SIZE]) {
  WCHAR given[WIDE_SIZE], wide[WIDE_SIZE];
  char text[3 * WIDE_SIZE], hash[33];
  if (!to_wide(path, given, WIDE_SIZE)) return false;
  DWORD length = GetFullPathNameW(given, WIDE_SIZE, wide, NULL);
  if (length == 0 || length >= WIDE_SIZE) return fail_with(ERROR_FILENAME_EXCED_RANGE);
  for (WCHAR *at = wide; *at != 0; at++)
    if (*at >= L'A' && *at <= L'Z') *at += L'a' - L'A';
  if (!hash_name(text, to_utf8(wide, -1, text, sizeof text), hash)) return false;
  swprintf(out, NAME_SIZE, L"\\\\.\\pipe\\holdfast-%hs", hash);
  return true;
}

/* Another program of this machine may have taken the name: the first instance must be ours. */
static HANDLE new_instance(const WCHAR *name, bool first) {
  SECURITY_ATTRIBUTES *own = only_this_user();
  if (own == NULL) return INVALID_HANDLE_VALUE;
  HANDLE pipe = CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | (first ? FILE_FLAG_FIRST_PIPE_INSTANCE : 0),
                                 PIPE_TYPE_BYTE | PIPE_REJECT_REMOTE_CLIENTS, PIPE_UNLIMITED_INSTANCES, PIPE_SIZE, PIPE_SIZE, 0, own);
  if (pipe == INVALID_HANDLE_VALUE) (void)fail_last();
  if (pipe == INVALID_HANDLE_VALUE && first && errno == EACCES) errno = EADDRINUSE;
  return pipe;
}

/* Waits for the next client without blocking. */
static bool await_client(struct slot *slot, bool first) {
  HANDLE pipe = new_instance(slot->name, first), event = slot->read.overlapped.hEvent;
  if (pipe == INVALID_HANDLE_VALUE) return false;
  (void)ResetEvent(event);
  slot->read.overlapped = (OVERLAPPED){.hEvent = event};
  DWORD error = ConnectNamedPipe(pipe, &slot->read.overlapped) ? ERROR_PIPE_CONNECTED : GetLastError();
  if (error == ERROR_PIPE_CONNECTED || error == ERROR_NO_DATA) (void)SetEvent(event);
  else if (error != ERROR_IO_PENDING) {
    CloseHandle(pipe);
    return fail_with(error);
  }
  slot->handle = pipe;
  return true;
}

/* One for all listeners of this process: a client may have read it from a file that was replaced since. */
static const uint8_t *own_key(void) {
  static uint8_t key[KEY_SIZE];
  static bool made;
  made = made || BCryptGenRandom(NULL, key, sizeof key, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0;
  if (!made) errno = EIO;
  return made ? key : NULL;
}

bool answer_challenge(struct slot *slot) {
  const uint8_t *key = own_key();
  uint8_t proof[SHA256_SIZE];
  if (key == NULL) return false;
  hmac_sha256(key, KEY_SIZE, slot->challenge, sizeof slot->challenge, proof);
  return os_write(slot->read.fd, proof, sizeof proof) == (long)sizeof proof;
}

static bool write_key(HANDLE file) {
  const uint8_t *key = own_key();
  char text[2 * KEY_SIZE + 1];
  DWORD written;
  if (key == NULL) return false;
  for (int i = 0; i < KEY_SIZE; i++) snprintf(text + 2 * i, 3, "%02x", key[i]);
  return WriteFile(file, text, 2 * KEY_SIZE, &written, NULL) || fail_last();
}

/* A client never sees half a key. */
static bool create_marker(const char *path, uint64_t *identity) {
  WCHAR wide[WIDE_SIZE], unfinished[WIDE_SIZE];
  struct os_file_info info;
  SECURITY_ATTRIBUTES *own = only_this_user();
  if (own == NULL || !to_wide_path(path, wide, WIDE_SIZE)) return false;
  if (swprintf(unfinished, WIDE_SIZE, L"%ls.new", wide) < 0) return fail_with(ERROR_FILENAME_EXCED_RANGE);
  (void)DeleteFileW(unfinished);
  (void)DeleteFileW(wide);
  HANDLE file = CreateFileW(unfinished, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, own, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
  if (file == INVALID_HANDLE_VALUE) return fail_last();
  bool written = write_key(file);
  CloseHandle(file);
  if (!written) return false;
  if (!MoveFileExW(unfinished, wide, 0)) return fail_last();
  if (!os_path_info(path, &info)) return false;
  *identity = info.inode;
  return true;
}

static bool is_listening(const WCHAR *name) {
  for (int fd = 0; fd < POLL_MAX; fd++) {
    struct slot *other = slot_of(fd, SLOT_LISTENER);
    if (other != NULL && wcscmp(other->name, name) == 0) return true;
  }
  return false;
}

int os_listen(const char *path, int backlog, uint64_t *identity) {
  WCHAR name[NAME_SIZE];
  (void)backlog; /* a client waits for the next instance */
  if (!pipe_name(path, name)) return -1;
  bool first = !is_listening(name); /* the marker was deleted, and the earlier listener is closed afterwards */
  int fd = slot_open(SLOT_LISTENER, NULL);
  if (fd < 0) return -1;
  struct slot *slot = slot_of(fd, SLOT_LISTENER);
  slot->name = _wcsdup(name);
  slot->read.overlapped.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
  errno = ENOMEM;
  if (slot->name != NULL && slot->read.overlapped.hEvent != NULL && await_client(slot, first) && create_marker(path, identity)) return fd;
  int error = errno;
  os_close(fd);
  errno = error;
  return -1;
}

bool os_listener_present(const char *path, uint64_t identity) {
  struct os_file_info info;
  return os_path_info(path, &info) && info.inode == identity;
}

bool listener_ready(const struct slot *slot) { return slot->handle == NULL || WaitForSingleObject(slot->read.overlapped.hEvent, 0) == WAIT_OBJECT_0; }

int os_accept(int listener) {
  struct slot *slot = slot_of(listener, SLOT_LISTENER);
  if (slot == NULL) return -1;
  if (slot->handle == NULL && !await_client(slot, false)) return -1;
  errno = EAGAIN;
  if (!listener_ready(slot)) return -1;
  HANDLE connected = slot->handle;
  slot->handle = NULL;
  (void)await_client(slot, false); /* otherwise the next call tries again */
  int fd = slot_open(SLOT_PIPE, connected);
  if (fd >= 0) slot_of(fd, SLOT_PIPE)->challenge_left = CHALLENGE_SIZE;
  return fd;
}

void listener_close(struct slot *slot) {
  DWORD count;
  if (slot->handle != NULL && CancelIoEx(slot->handle, &slot->read.overlapped))
    (void)GetOverlappedResult(slot->handle, &slot->read.overlapped, &count, TRUE);
  if (slot->read.overlapped.hEvent != NULL) CloseHandle(slot->read.overlapped.hEvent);
}

os_pid os_peer(int fd) {
  struct slot *slot = slot_of(fd, SLOT_PIPE);
  ULONG pid = 0;
  return slot != NULL && GetNamedPipeClientProcessId(slot->handle, &pid) ? (os_pid)pid : 0;
}

/* The pipe's access list lets only this user connect. */
bool os_peer_trusted(int fd) { return slot_of(fd, SLOT_PIPE) != NULL; }
