/* Shared by the Linux files only. */
#ifndef LINUX_H
#define LINUX_H

#include <stdbool.h>
#include <stddef.h>

#include "os.h"

/* Bytes read, the text NUL-terminated; -1 when it cannot be opened. */
long slurp(const char *path, char *out, size_t size);
/* What its number says now is about the same process as before. */
bool still_itself(const struct member *member);

#endif
