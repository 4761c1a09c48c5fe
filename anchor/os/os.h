/* The interface to the operating system. Outside of anchor/os, only anchor/client includes headers of a system. os/posix
 * implements what POSIX systems share; os/linux, os/darwin and os/other implement the rest for theirs; os/windows implements
 * all of it. Every function that can fail sets errno to a standard value. */
#ifndef OS_H
#define OS_H

#include "os/interface/io.h"
#include "os/interface/process.h"
#include "os/interface/process-details.h"
#include "os/interface/ports.h"
#include "os/interface/find-processes.h"
#include "os/interface/boundary.h"
#include "os/interface/limits.h"
#include "os/interface/this-process.h"
#include "os/interface/launch.h"
#include "os/interface/spawn.h"

#endif
