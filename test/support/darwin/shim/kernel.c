/* `darwin-shim-kernel`: records which process forked which, in this pid namespace, by perf events of the kernel, until its
 * standard input ends. Prints a line when it is ready, which is when the one before it has ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim.h"

#define CPUS 64
#define RING_PAGES 256
#define CLIENTS 1024
#define WATCHES 65536
#define RECORDS 65536

struct record {
  uint64_t time;
  uint32_t pid, parent;
  bool ended;
};

static struct table *table;
static uint64_t last_unique = 1;
static struct {
  int fd;
  struct perf_event_mmap_page *page;
} rings[CPUS];
static int ring_count;
static int clients[CLIENTS];
static struct {
  int client;
  pid_t pid;
} watches[WATCHES];
static long watch_count;
static struct record records[RECORDS];
static long record_count;

static _Noreturn void fail(const char *what) {
  perror(what);
  exit(1);
}

/* ---- forks ---- */

static void open_rings(void) {
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_DUMMY, .task = 1, .wakeup_events = 1};
  long page = sysconf(_SC_PAGESIZE);
  ring_count = (int)sysconf(_SC_NPROCESSORS_CONF);
  if (ring_count > CPUS) ring_count = CPUS;
  for (int i = 0; i < ring_count; i++) {
    rings[i].fd = (int)syscall(SYS_perf_event_open, &attr, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
    if (rings[i].fd < 0) fail("perf_event_open");
    rings[i].page = mmap(NULL, (size_t)(page * (1 + RING_PAGES)), PROT_READ | PROT_WRITE, MAP_SHARED, rings[i].fd, 0);
    if (rings[i].page == MAP_FAILED) fail("mmap");
  }
}

static void copy(const char *data, uint64_t size, uint64_t at, void *out, size_t length) {
  for (size_t i = 0; i < length; i++) ((char *)out)[i] = data[(at + i) % size];
}

static void read_ring(struct perf_event_mmap_page *page) {
  const char *data = (const char *)page + page->data_offset;
  uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), at = page->data_tail;
  while (at < head) {
    struct perf_event_header header;
    struct {
      uint32_t pid, ppid, tid, ptid;
      uint64_t time;
    } task;
    copy(data, page->data_size, at, &header, sizeof header);
    if (header.type == PERF_RECORD_LOST || record_count == RECORDS) {
      fprintf(stderr, "darwin-shim-kernel: forks were lost\n");
      exit(1);
    }
    copy(data, page->data_size, at + sizeof header, &task, sizeof task);
    at += header.size;
    bool forked = header.type == PERF_RECORD_FORK && task.pid != task.ppid, ended = header.type == PERF_RECORD_EXIT && task.pid == task.tid;
    if ((forked || ended) && task.pid != 0) records[record_count++] = (struct record){.time = task.time, .pid = task.pid, .parent = task.ppid, .ended = ended};
  }
  __atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
}

static int by_time(const void *a, const void *b) {
  const struct record *one = a, *other = b;
  return one->time < other->time ? -1 : one->time > other->time;
}

static void tell(pid_t parent) {
  int32_t message = parent;
  for (long i = 0; i < watch_count; i++)
    if (watches[i].pid == parent) (void)send(clients[watches[i].client], &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void forget(pid_t pid, int client) {
  for (long i = 0; i < watch_count; i++)
    if (watches[i].pid == pid || watches[i].client == client) watches[i--] = watches[--watch_count];
}

static void take_forks(void) {
  record_count = 0;
  for (int i = 0; i < ring_count; i++) read_ring(rings[i].page);
  qsort(records, (size_t)record_count, sizeof *records, by_time);
  for (long i = 0; i < record_count; i++) {
    const struct record *record = &records[i];
    if (record->pid >= table->slots) continue;
    struct slot *slot = &table->slot[record->pid];
    if (record->ended) {
      slot->ended = 1;
      forget((pid_t)record->pid, -1);
      continue;
    }
    slot->parent = record->parent < table->slots ? table->slot[record->parent].unique : 0;
    slot->ended = 0;
    __atomic_store_n(&slot->unique, ++last_unique, __ATOMIC_RELEASE);
    tell((pid_t)record->parent);
  }
}

/* ---- processes from before ---- */

static int by_start(const void *a, const void *b) {
  struct proc_stat one, other;
  if (!read_proc_stat(*(const pid_t *)a, &one) || !read_proc_stat(*(const pid_t *)b, &other)) return 0;
  return one.start_ms < other.start_ms ? -1 : one.start_ms > other.start_ms;
}

static void take_existing(void) {
  static pid_t pids[65536];
  size_t count = 0;
  DIR *proc = opendir("/proc");
  if (proc == NULL) fail("/proc");
  for (struct dirent *entry; (entry = readdir(proc)) != NULL && count < sizeof pids / sizeof *pids;)
    if (atoi(entry->d_name) > 0) pids[count++] = atoi(entry->d_name);
  closedir(proc);
  qsort(pids, count, sizeof *pids, by_start);
  for (size_t i = 0; i < count; i++) {
    struct proc_stat stat;
    if (!read_proc_stat(pids[i], &stat) || (uint64_t)pids[i] >= table->slots) continue;
    table->slot[pids[i]].parent = table->slot[stat.ppid].unique;
    table->slot[pids[i]].unique = pids[i] == 1 ? 1 : ++last_unique;
  }
}

static void create_table(void) {
  char path[128], text[64] = "";
  table_path(path, sizeof path);
  FILE *most = fopen("/proc/sys/kernel/pid_max", "r"), *boot = fopen("/proc/sys/kernel/random/uuid", "r");
  long slots = most != NULL && fgets(text, sizeof text, most) != NULL ? atol(text) + 1 : 0;
  size_t size = sizeof *table + (size_t)slots * sizeof *table->slot;
  (void)unlink(path);
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (slots == 0 || boot == NULL || file < 0 || ftruncate(file, (off_t)size) != 0) fail(path);
  table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (table == MAP_FAILED || fgets(table->boot, sizeof table->boot, boot) == NULL) fail("boot id");
  table->boot[strcspn(table->boot, "\n")] = 0;
  table->slots = (uint64_t)slots;
  close(file);
  fclose(most);
  fclose(boot);
}

/* ---- clients ---- */

static int listen_for_clients(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  socket_path(address.sun_path, sizeof address.sun_path);
  (void)unlink(address.sun_path);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, CLIENTS) != 0 || chmod(address.sun_path, 0666) != 0) fail("socket");
  return fd;
}

static void drop(int at) {
  close(clients[at]);
  forget(-1, at);
  clients[at] = -1;
}

static void accept_clients(int listener) {
  for (int i = 0; i < CLIENTS; i++)
    if (clients[i] < 0 && (clients[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) return;
}

/* Takes watches before a SYNC that came later is answered. */
static void take_requests(bool asked[CLIENTS]) {
  for (int i = 0; i < CLIENTS; i++) {
    int32_t request;
    ssize_t n;
    while (clients[i] >= 0 && (n = recv(clients[i], &request, sizeof request, 0)) != -1) {
      if (n != (ssize_t)sizeof request) drop(i);
      else if (request == SYNC) asked[i] = true;
      else if (watch_count < WATCHES) watches[watch_count].client = i, watches[watch_count++].pid = request;
    }
    if (clients[i] >= 0 && errno != EAGAIN && errno != EINTR) drop(i);
  }
}

static void wait_for_turn(void) {
  char path[128];
  table_path(path, sizeof path - sizeof ".lock");
  strcat(path, ".lock");
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || flock(file, LOCK_EX) != 0) fail(path);
}

int main(void) {
  wait_for_turn();
  create_table();
  open_rings();
  take_existing();
  int listener = listen_for_clients();
  for (int i = 0; i < CLIENTS; i++) clients[i] = -1;
  printf("ready\n");
  fflush(stdout);
  for (;;) {
    static struct pollfd set[2 + CPUS + CLIENTS];
    bool asked[CLIENTS] = {false};
    nfds_t used = 0;
    set[used++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    set[used++] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < ring_count; i++) set[used++] = (struct pollfd){.fd = rings[i].fd, .events = POLLIN};
    for (int i = 0; i < CLIENTS; i++)
      if (clients[i] >= 0) set[used++] = (struct pollfd){.fd = clients[i], .events = POLLIN};
    if (poll(set, used, -1) < 0 && errno != EINTR) fail("poll");
    char more[16];
    if (set[0].revents != 0 && read(STDIN_FILENO, more, sizeof more) <= 0) return 0;
    accept_clients(listener);
    take_requests(asked);
    bool unused[CLIENTS] = {false};
    take_requests(unused);
    take_forks();
    for (int i = 0; i < CLIENTS; i++) {
      int32_t answer = SYNC;
      if ((asked[i] || unused[i]) && clients[i] >= 0) (void)send(clients[i], &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}
