/* Shared by the Linux files only. */
#ifndef LINUX_H
#define LINUX_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes read, the text NUL-terminated; -1 when it cannot be opened. */
long slurp(const char *path, char *out, size_t size);

#endif
