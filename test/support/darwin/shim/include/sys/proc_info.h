/* The members of macOS' structures that the anchor uses. */
#ifndef SYS_PROC_INFO_H
#define SYS_PROC_INFO_H

#include <stdint.h>
#include <sys/types.h>

#define MAXCOMLEN 16
#define PROC_PIDLISTFDS 1
#define PROC_PIDTBSDINFO 3
#define PROC_PIDTASKINFO 4
#define PROC_PIDT_SHORTBSDINFO 13
#define PROC_PIDFDVNODEPATHINFO 2
#define PROC_PIDFDSOCKETINFO 3
#define PROX_FDTYPE_VNODE 1
#define PROX_FDTYPE_SOCKET 2
#define PROX_FDTYPE_KQUEUE 5
#define PROX_FDTYPE_PIPE 6
#define SOCKINFO_TCP 2
#define TSI_S_LISTEN 1

struct proc_bsdinfo {
  uint32_t pbi_status, pbi_xstatus;
  char pbi_name[2 * MAXCOMLEN];
  uint64_t pbi_start_tvsec, pbi_start_tvusec;
};
struct proc_bsdshortinfo {
  uint32_t pbsi_ppid, pbsi_pgid, pbsi_status;
  char pbsi_comm[MAXCOMLEN];
  uid_t pbsi_uid;
};
struct proc_taskinfo {
  uint64_t pti_resident_size, pti_total_user, pti_total_system;
  int32_t pti_threadnum;
};
struct proc_fdinfo {
  int32_t proc_fd;
  uint32_t proc_fdtype;
};
struct vnode_fdinfowithpath {
  struct {
    char vip_path[1024];
  } pvip;
};
struct socket_fdinfo {
  struct {
    int soi_kind;
    union {
      struct {
        struct {
          int insi_lport;
        } tcpsi_ini;
        int tcpsi_state;
      } pri_tcp;
    } soi_proto;
  } psi;
};

#endif
