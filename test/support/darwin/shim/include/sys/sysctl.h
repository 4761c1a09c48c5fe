#include <stddef.h>

#define CTL_KERN 1
#define KERN_PROCARGS2 49

int sysctl(int *mib, unsigned count, void *out, size_t *size, void *in, size_t in_size);
int sysctlbyname(const char *name, void *out, size_t *size, void *in, size_t in_size);
