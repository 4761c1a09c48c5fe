/* libproc(3) by /proc, with the unique ids of kernel.c. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libproc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/proc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/darwin/darwin.h"
#include "shim.h"

#define START_SLACK_MS 50 /* start times are in clock ticks */
#define FORK_ROUNDS 1000  /* a process is in /proc a moment before its fork is reported */

static uint64_t uptime_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool fill_unique(pid_t pid, const struct proc_stat *stat, struct unique_info *out) {
  static uint64_t synced_ms;
  const struct table *table = table_of_kernel();
  if (table == NULL || (uint64_t)pid >= table->slots) return false;
  for (int round = 0; round < FORK_ROUNDS; round++) {
    uint64_t now = uptime_ms();
    if (round > 0) usleep(100);
    if (round > 0 || stat->start_ms + START_SLACK_MS >= synced_ms) {
      if (!sync_kernel()) return false;
      synced_ms = now;
    }
    const struct slot *slot = &table->slot[pid];
    *out = (struct unique_info){.unique = __atomic_load_n(&slot->unique, __ATOMIC_ACQUIRE), .parent = slot->parent};
    bool zombie = stat->state == 'Z' || stat->state == 'X' || stat->threads > 1 || kill(pid, 0) != 0;
    if (out->unique != 0 && (slot->ended == 0 || zombie)) return true;
    struct proc_stat now_stat;
    if (!read_proc_stat(pid, &now_stat)) return false;
    if (now_stat.state == 'Z' || now_stat.state == 'X') return out->unique != 0;
  }
  return out->unique != 0;
}

static uint32_t status_of(char state) {
  switch (state) {
    case 'Z': case 'X': return SZOMB;
    case 'T': case 't': return SSTOP;
    case 'R': return SRUN;
    default: return SSLEEP;
  }
}

static uid_t uid_of(pid_t pid) {
  char path[32];
  struct stat st;
  snprintf(path, sizeof path, "/proc/%d", pid);
  return stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
}

static int list_fds(pid_t pid, struct proc_fdinfo *out, int size) {
  char path[64], link[64];
  int count = 0, most = size / (int)sizeof *out;
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *entries = opendir(path);
  if (entries == NULL) return -1;
  for (struct dirent *entry; count < most && (entry = readdir(entries)) != NULL;) {
    ssize_t n = entry->d_name[0] == '.' ? -1 : readlinkat(dirfd(entries), entry->d_name, link, sizeof link - 1);
    if (n <= 0 || (pid == getpid() && atoi(entry->d_name) == dirfd(entries))) continue;
    link[n] = 0;
    uint32_t type = link[0] == '/' ? PROX_FDTYPE_VNODE : strncmp(link, "socket:", 7) == 0 ? PROX_FDTYPE_SOCKET : strncmp(link, "pipe:", 5) == 0 ? PROX_FDTYPE_PIPE : PROX_FDTYPE_KQUEUE;
    out[count++] = (struct proc_fdinfo){.proc_fd = atoi(entry->d_name), .proc_fdtype = type};
  }
  closedir(entries);
  return count * (int)sizeof *out;
}

static int fail(int error) {
  errno = error;
  return 0;
}

int proc_pidinfo(int pid, int flavor, uint64_t arg, void *buffer, int size) {
  struct proc_stat stat;
  if (!read_proc_stat(pid, &stat)) return fail(ESRCH);
  if (status_of(stat.state) == SZOMB && (arg == 0 || flavor == PROC_PIDLISTFDS || flavor == PROC_PIDTASKINFO)) return fail(ESRCH);
  uid_t uid = uid_of(pid);
  bool open = flavor == PROC_PIDT_SHORTBSDINFO || flavor == PROC_PIDUNIQIDENTIFIERINFO;
  if (!open && geteuid() != 0 && uid != geteuid()) return fail(EPERM);
  switch (flavor) {
    case PROC_PIDUNIQIDENTIFIERINFO:
      if (size < (int)sizeof(struct unique_info)) return fail(ENOMEM);
      if (!fill_unique(pid, &stat, buffer)) return fail(read_proc_stat(pid, &stat) ? EIO : ESRCH);
      return (int)sizeof(struct unique_info);
    case PROC_PIDT_SHORTBSDINFO: {
      struct proc_bsdshortinfo *out = buffer;
      *out = (struct proc_bsdshortinfo){.pbsi_ppid = (uint32_t)stat.ppid, .pbsi_pgid = (uint32_t)stat.pgid, .pbsi_status = status_of(stat.state), .pbsi_uid = uid};
      memcpy(out->pbsi_comm, stat.command, MAXCOMLEN - 1);
      return (int)sizeof *out;
    }
    case PROC_PIDTBSDINFO: {
      struct proc_bsdinfo *out = buffer;
      *out = (struct proc_bsdinfo){.pbi_status = status_of(stat.state), .pbi_xstatus = stat.wait_status, .pbi_start_tvsec = stat.start / 1000000, .pbi_start_tvusec = stat.start % 1000000};
      snprintf(out->pbi_name, sizeof out->pbi_name, "%s", stat.command);
      return (int)sizeof *out;
    }
    case PROC_PIDTASKINFO: {
      struct proc_taskinfo *out = buffer;
      *out = (struct proc_taskinfo){.pti_resident_size = stat.resident, .pti_total_user = stat.user_ns, .pti_total_system = stat.system_ns, .pti_threadnum = stat.threads};
      return (int)sizeof *out;
    }
    case PROC_PIDLISTFDS: return list_fds(pid, buffer, size);
    default: return fail(EINVAL);
  }
}

/* Newest first, as the kernel of macOS lists them. */
static int newest_first(const void *a, const void *b) { return *(const pid_t *)b - *(const pid_t *)a; }

int proc_listallpids(void *buffer, int size) {
  pid_t *out = buffer;
  int count = 0;
  DIR *proc = opendir("/proc");
  if (proc == NULL) return -1;
  for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
    pid_t pid = atoi(entry->d_name);
    if (pid <= 0) continue;
    if (out != NULL && (count + 1) * (int)sizeof *out > size) break;
    if (out != NULL) out[count] = pid;
    count++;
  }
  closedir(proc);
  if (out != NULL) qsort(out, (size_t)count, sizeof *out, newest_first);
  return count;
}

int proc_listchildpids(pid_t parent, void *buffer, int size) {
  char path[80];
  pid_t *out = buffer;
  int count = 0, pid;
  snprintf(path, sizeof path, "/proc/%d/task", parent);
  DIR *tasks = opendir(path);
  if (tasks == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", parent, entry->d_name);
    FILE *children = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
    while (children != NULL && (count + 1) * (int)sizeof *out <= size && fscanf(children, "%d", &pid) == 1) out[count++] = pid;
    if (children != NULL) fclose(children);
  }
  closedir(tasks);
  return count;
}

static int listening_port(pid_t pid, const char *table, unsigned long long wanted) {
  char path[48], line[512];
  unsigned port, state, found = 0;
  unsigned long long inode;
  snprintf(path, sizeof path, "/proc/%d/net/%s", pid, table);
  FILE *sockets = fopen(path, "re");
  while (sockets != NULL && found == 0 && fgets(line, sizeof line, sockets) != NULL)
    if (sscanf(line, "%*d: %*[^:]:%x %*s %x %*s %*s %*s %*u %*u %llu", &port, &state, &inode) == 3 && inode == wanted && state == 0x0a) found = port;
  if (sockets != NULL) fclose(sockets);
  return (int)found;
}

int proc_pidfdinfo(int pid, int fd, int flavor, void *buffer, int size) {
  char path[64], link[1024];
  unsigned long long inode;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  ssize_t n = readlink(path, link, sizeof link - 1);
  if (n <= 0) return fail(EBADF);
  link[n] = 0;
  memset(buffer, 0, (size_t)size);
  if (flavor == PROC_PIDFDVNODEPATHINFO) {
    struct vnode_fdinfowithpath *out = buffer;
    snprintf(out->pvip.vip_path, sizeof out->pvip.vip_path, "%s", link);
    return (int)sizeof *out;
  }
  if (flavor != PROC_PIDFDSOCKETINFO || sscanf(link, "socket:[%llu]", &inode) != 1) return fail(EBADF);
  struct socket_fdinfo *out = buffer;
  int port = listening_port(pid, "tcp", inode);
  if (port == 0) port = listening_port(pid, "tcp6", inode);
  out->psi.soi_kind = port == 0 ? 0 : SOCKINFO_TCP;
  out->psi.soi_proto.pri_tcp.tcpsi_state = TSI_S_LISTEN;
  out->psi.soi_proto.pri_tcp.tcpsi_ini.insi_lport = htons((uint16_t)port);
  return (int)sizeof *out;
}

int proc_pidpath(int pid, void *buffer, uint32_t size) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  ssize_t n = readlink(path, buffer, size - 1);
  if (n > 0) ((char *)buffer)[n] = 0;
  return n > 0 ? (int)n : 0;
}

/* Supports only a child that has ended. */
int proc_pid_rusage(int pid, int flavor, rusage_info_t *buffer) {
  struct rusage_info_v4 *out = (struct rusage_info_v4 *)buffer;
  siginfo_t info;
  struct rusage usage;
  if (flavor != RUSAGE_INFO_V4 || syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT, &usage) != 0) return -1;
  *out = (struct rusage_info_v4){
      .ri_user_time = (uint64_t)usage.ru_utime.tv_sec * 1000000000 + (uint64_t)usage.ru_utime.tv_usec * 1000,
      .ri_system_time = (uint64_t)usage.ru_stime.tv_sec * 1000000000 + (uint64_t)usage.ru_stime.tv_usec * 1000,
      .ri_lifetime_max_phys_footprint = (uint64_t)usage.ru_maxrss * 1024,
  };
  return 0;
}
