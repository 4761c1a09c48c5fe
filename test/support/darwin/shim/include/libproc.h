#ifndef LIBPROC_H
#define LIBPROC_H

#include <stdint.h>
#include <sys/proc_info.h>

#define RUSAGE_INFO_V4 4
typedef void *rusage_info_t;
struct rusage_info_v4 {
  uint64_t ri_user_time, ri_system_time, ri_child_user_time, ri_child_system_time, ri_lifetime_max_phys_footprint;
};

int proc_listallpids(void *buffer, int size);
int proc_listchildpids(pid_t parent, void *buffer, int size);
int proc_pidinfo(int pid, int flavor, uint64_t arg, void *buffer, int size);
int proc_pidfdinfo(int pid, int fd, int flavor, void *buffer, int size);
int proc_pidpath(int pid, void *buffer, uint32_t size);
int proc_pid_rusage(int pid, int flavor, rusage_info_t *buffer);

#endif
