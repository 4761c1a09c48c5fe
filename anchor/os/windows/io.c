/* Windows: a table of descriptors, and readiness, which Windows does not have, out of overlapped operations.
 *
 * "Readable" is the end of a read of no bytes, which waits until there is something to read and takes nothing. Its
 * completion routine runs in os_poll, because that waits alertably. No completion port is used: a pipe can be bound to only
 * one, and a launcher hands its connections to anchors. A write is done from a copy, one at a time. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS POLL_MAX
#define WRITE_MOST (64u * 1024)
#define LINGER_MS 1000
#define LISTENERS_MAX 32

static struct slot slots[SLOTS];
static HANDLE wake;      /* ends the wait of os_poll */
static HANDLE read_done; /* of the read in os_read: the pipe itself is also signalled by the end of a write */

static HANDLE wake_event(void) {
  if (wake == NULL) wake = CreateEventW(NULL, FALSE, FALSE, NULL);
  return wake;
}

static HANDLE read_event(void) {
  if (read_done == NULL) read_done = CreateEventW(NULL, TRUE, FALSE, NULL);
  return read_done;
}

void wake_poll(void) { (void)SetEvent(wake); }

int slot_open(enum slot_kind kind, HANDLE handle) {
  for (int fd = 0; fd < SLOTS && wake_event() != NULL && read_event() != NULL; fd++) {
    if (slots[fd].kind != SLOT_FREE) continue;
    slots[fd] = (struct slot){.kind = kind, .handle = handle, .read = {.fd = fd}, .write = {.fd = fd}};
    return fd;
  }
  if (handle != NULL) CloseHandle(handle);
  errno = EMFILE;
  return -1;
}

struct slot *slot_of(int fd, enum slot_kind kind) {
  if (fd >= 0 && fd < SLOTS && slots[fd].kind == kind && !slots[fd].lingers) return &slots[fd];
  errno = EBADF;
  return NULL;
}

long os_descriptor_limit(void) { return 1 << 20; /* of handles; descriptors are counted by os_descriptors_free */ }

long os_descriptors_free(long most) {
  long count = 0;
  for (int fd = 0; fd < SLOTS && count < most; fd++) count += slots[fd].kind == SLOT_FREE;
  return count;
}

/* ---- completion ---- */

static void run_completions(void) {
  while (SleepEx(0, TRUE) == WAIT_IO_COMPLETION) continue;
}

static void slot_free(struct slot *slot) {
  if (slot->handle != NULL) CloseHandle(slot->handle);
  if (slot->sink != NULL) CloseHandle(slot->sink);
  free(slot->held);
  free(slot->name);
  *slot = (struct slot){.kind = SLOT_FREE};
}

static void CALLBACK on_read(DWORD error, DWORD count, OVERLAPPED *overlapped) {
  struct slot *slot = &slots[((struct transfer *)overlapped)->fd];
  (void)count;
  slot->read.pending = false;
  slot->read.error = error;
  slot->readable = error != ERROR_OPERATION_ABORTED;
  slot->ended = slot->readable && error != ERROR_SUCCESS && error != ERROR_MORE_DATA;
}

static void CALLBACK on_write(DWORD error, DWORD count, OVERLAPPED *overlapped) {
  struct slot *slot = &slots[((struct transfer *)overlapped)->fd];
  (void)count;
  slot->write.pending = false;
  slot->write.error = error;
  if (slot->lingers) slot_free(slot);
}

static void start_read(struct slot *slot) {
  static char none;
  if (slot->read.pending || slot->readable) return;
  slot->read.overlapped = (OVERLAPPED){0};
  slot->read.pending = true;
  if (ReadFileEx(slot->handle, &none, 0, &slot->read.overlapped, on_read)) return;
  slot->read.pending = false;
  slot->readable = slot->ended = true;
}

void pipe_release(struct slot *slot) {
  if (slot->read.pending) (void)CancelIoEx(slot->handle, &slot->read.overlapped);
  while (slot->read.pending) (void)SleepEx(INFINITE, TRUE);
}

/* ---- pipes ---- */

bool pipe_join(int to, int from) {
  struct slot *slot = slot_of(to, SLOT_PIPE), *other = slot_of(from, SLOT_PIPE);
  if (slot == NULL || other == NULL) return false;
  slot->sink = other->handle;
  other->handle = NULL;
  slot_free(other);
  return true;
}

/* Reads bytes that are there; 0: they are not. */
static DWORD read_now(struct slot *slot, void *data, DWORD size) {
  DWORD done = 0;
  OVERLAPPED overlapped = {.hEvent = read_event()};
  bool read = ReadFile(slot->handle, data, size, NULL, &overlapped) || GetLastError() == ERROR_IO_PENDING;
  if (!read || !GetOverlappedResult(slot->handle, &overlapped, &done, TRUE)) return 0;
  slot->readable = false;
  return done;
}

/* 1: there are bytes; 0: none now; -1: the end. */
static int pipe_available(struct slot *slot, DWORD *available) {
  run_completions();
  *available = 0;
  if (slot->read.pending) return 0;
  for (;;) {
    if (!PeekNamedPipe(slot->handle, NULL, 0, NULL, available, NULL)) {
      slot->readable = slot->ended = true;
      return -1;
    }
    if (*available > 0 && slot->challenge_left == 0) return 1;
    if (*available == 0) break;
    DWORD wanted = slot->challenge_left < *available ? slot->challenge_left : *available;
    DWORD taken = read_now(slot, slot->challenge + CHALLENGE_SIZE - slot->challenge_left, wanted);
    slot->challenge_left -= taken;
    if (taken == 0 || (slot->challenge_left == 0 && !answer_challenge(slot))) return -1;
  }
  slot->readable = slot->ended = false;
  return 0;
}

long os_read(int fd, void *data, size_t size) {
  struct slot *slot = slot_of(fd, SLOT_PIPE);
  DWORD available;
  if (slot == NULL) return -1;
  int state = pipe_available(slot, &available);
  if (state < 0) return 0;
  errno = EAGAIN;
  if (state == 0) {
    start_read(slot); /* also shows the end, of which an empty pipe says nothing */
    return -1;
  }
  return (long)read_now(slot, data, available > size ? (DWORD)size : available);
}

long os_peek(int fd, void *data, size_t size) {
  struct slot *slot = slot_of(fd, SLOT_PIPE);
  DWORD available, done = 0;
  if (slot == NULL) return -1;
  int state = pipe_available(slot, &available);
  if (state < 0 || (state > 0 && !PeekNamedPipe(slot->handle, data, (DWORD)size, &done, NULL, NULL))) return 0;
  errno = EAGAIN;
  return state == 0 ? -1 : (long)done;
}

size_t os_readable(int fd) {
  struct slot *slot = slot_of(fd, SLOT_PIPE);
  DWORD available = 0;
  return slot != NULL && PeekNamedPipe(slot->handle, NULL, 0, NULL, &available, NULL) ? available : 0;
}

void os_pipe_grow(int fd, size_t size) {
  (void)fd;
  (void)size;
}

long os_write(int fd, const void *data, size_t size) {
  struct slot *slot = slot_of(fd, SLOT_PIPE);
  if (slot == NULL) return -1;
  run_completions();
  errno = EAGAIN;
  if (slot->write.pending) return -1;
  if (slot->write.error != ERROR_SUCCESS) {
    (void)fail_with(slot->write.error);
    return -1;
  }
  if (slot->held == NULL && (slot->held = malloc(WRITE_MOST)) == NULL) return -1;
  if (size > WRITE_MOST) size = WRITE_MOST;
  memcpy(slot->held, data, size);
  slot->write.overlapped = (OVERLAPPED){0};
  slot->write.pending = true;
  if (!WriteFileEx(slot->sink != NULL ? slot->sink : slot->handle, slot->held, (DWORD)size, &slot->write.overlapped, on_write)) {
    slot->write.pending = false;
    slot->write.error = GetLastError();
    (void)fail_with(slot->write.error);
    return -1;
  }
  run_completions();
  return (long)size;
}

void flag_raise(int fd) {
  if (fd < 0 || fd >= SLOTS) return;
  (void)InterlockedExchange(&slots[fd].flag, 1);
  wake_poll();
}

void os_close(int fd) {
  if (fd < 0 || fd >= SLOTS || slots[fd].kind == SLOT_FREE || slots[fd].lingers) return;
  struct slot *slot = &slots[fd];
  if (slot->kind == SLOT_LISTENER) listener_close(slot);
  if (slot->kind == SLOT_CONSOLE) console_close();
  if (slot->kind == SLOT_PROCESS && slot->wait != NULL) (void)UnregisterWaitEx(slot->wait, INVALID_HANDLE_VALUE);
  if (slot->kind == SLOT_PIPE) {
    run_completions();
    pipe_release(slot);
    slot->lingers = slot->write.pending;
    if (slot->lingers) return;
  }
  slot_free(slot);
}

void pipes_flush(void) {
  uint64_t until = os_now_ms() + LINGER_MS, now;
  for (int fd = 0; fd < SLOTS; fd++)
    while (slots[fd].kind == SLOT_PIPE && slots[fd].write.pending && (now = os_now_ms()) < until) (void)SleepEx((DWORD)(until - now), TRUE);
}

/* ---- polling ---- */

static short readiness(struct slot *slot, short wants) {
  short ready = 0;
  switch (slot->kind) {
    case SLOT_PIPE:
      if (slot->readable && (wants & OS_READ) != 0) ready |= OS_READ;
      if (!slot->write.pending && (wants & OS_WRITE) != 0) ready |= OS_WRITE;
      if (slot->ended || (slot->write.error != ERROR_SUCCESS && !slot->write.pending)) ready |= OS_GONE;
      return ready;
    case SLOT_LISTENER: return listener_ready(slot) ? wants & OS_READ : 0;
    case SLOT_FLAG: return slot->flag != 0 ? wants & (OS_READ | OS_PRIORITY) : 0;
    case SLOT_PROCESS: return has_ended(slot->handle) ? wants & OS_READ : 0;
    default: return OS_GONE;
  }
}

static bool check_all(struct os_poll *set, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    bool open = set[i].fd >= 0 && set[i].fd < SLOTS;
    if (open && slots[set[i].fd].kind == SLOT_PIPE) start_read(&slots[set[i].fd]);
  }
  run_completions();
  for (size_t i = 0; i < count; i++) {
    set[i].ready = 0;
    if (set[i].fd >= 0) set[i].ready = set[i].fd < SLOTS ? readiness(&slots[set[i].fd], set[i].wants) : OS_GONE;
    any |= set[i].ready != 0;
  }
  return any;
}

void os_poll(struct os_poll *set, size_t count, int timeout_ms) {
  uint64_t until = timeout_ms < 0 ? UINT64_MAX : os_now_ms() + (uint64_t)timeout_ms;
  HANDLE waits[1 + LISTENERS_MAX];
  DWORD waited = 1;
  waits[0] = wake_event();
  for (size_t i = 0; i < count && waited < 1 + LISTENERS_MAX; i++) {
    struct slot *slot = set[i].fd >= 0 && set[i].fd < SLOTS ? &slots[set[i].fd] : NULL;
    if (slot != NULL && slot->kind == SLOT_LISTENER && slot->handle != NULL) waits[waited++] = slot->read.overlapped.hEvent;
  }
  for (;;) {
    if (check_all(set, count)) return;
    uint64_t now = os_now_ms();
    if (now >= until) return;
    DWORD wait = until == UINT64_MAX ? INFINITE : (DWORD)(until - now);
    if (WaitForMultipleObjectsEx(waited, waits, FALSE, wait, TRUE) == WAIT_FAILED) (void)SleepEx(wait < 20 ? wait : 20, TRUE);
  }
}

long os_read_input(void *data, size_t size) {
  DWORD done = 0;
  if (ReadFile(GetStdHandle(STD_INPUT_HANDLE), data, (DWORD)size, &done, NULL)) return (long)done;
  return GetLastError() == ERROR_BROKEN_PIPE || GetLastError() == ERROR_HANDLE_EOF ? 0 : fail_descriptor();
}
