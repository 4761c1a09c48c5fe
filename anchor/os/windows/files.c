/* Windows: files and directories. A descriptor of a directory is its handle, which is not a link, and its path. */
#include "os/windows/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define BUSY_TRIES 50
#define BUSY_WAIT_MS 10

const char *const os_program_suffix = ".exe";

const char *os_file_name(const char *path) {
  const char *name = path;
  for (const char *at = path; *at != 0; at++)
    if (*at == '/' || *at == '\\') name = at + 1;
  return name;
}

/* With a drive, or on a server. */
bool os_is_absolute(const char *path) {
  return (path[0] != 0 && path[1] == ':' && (path[2] == '/' || path[2] == '\\')) || (path[0] == '\\' && path[1] == '\\');
}

/* A virus scanner or an indexer may have a new file open for a moment. */
static bool is_passing(DWORD error) { return error == ERROR_SHARING_VIOLATION || error == ERROR_ACCESS_DENIED || error == ERROR_LOCK_VIOLATION; }

static bool entry_path(int dir, const char *name, WCHAR *out) {
  struct slot *slot = slot_of(dir, SLOT_DIRECTORY);
  WCHAR wide[256];
  if (slot == NULL || !to_wide(name, wide, 256)) return false;
  if (swprintf(out, WIDE_SIZE, L"%ls\\%ls", slot->name, wide) >= 0) return true;
  errno = ENAMETOOLONG;
  return false;
}

static bool read_info(HANDLE file, struct os_file_info *out) {
  BY_HANDLE_FILE_INFORMATION info;
  if (!GetFileInformationByHandle(file, &info)) return fail_last();
  *out = (struct os_file_info){
      .device = info.dwVolumeSerialNumber,
      .inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
      .size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow,
      .modified = (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime,
  };
  return true;
}

static bool info_of_path(const WCHAR *path, DWORD flags, struct os_file_info *out) {
  HANDLE file = CreateFileW(path, FILE_READ_ATTRIBUTES, SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
  if (file == INVALID_HANDLE_VALUE) return fail_last();
  bool known = read_info(file, out);
  CloseHandle(file);
  return known;
}

bool os_file_info(int fd, struct os_file_info *out) {
  struct slot *slot = slot_of(fd, SLOT_FILE);
  if (slot == NULL) slot = slot_of(fd, SLOT_DIRECTORY);
  return slot != NULL && read_info(slot->handle, out);
}

bool os_file_info_at(int dir, const char *name, struct os_file_info *out) {
  WCHAR path[WIDE_SIZE];
  return entry_path(dir, name, path) && info_of_path(path, FILE_FLAG_OPEN_REPARSE_POINT, out);
}

bool os_path_info(const char *path, struct os_file_info *out) {
  WCHAR wide[WIDE_SIZE];
  return to_wide_path(path, wide, WIDE_SIZE) && info_of_path(wide, 0, out);
}

static void remove_file(const WCHAR *path) {
  for (int i = 0; i < BUSY_TRIES && !DeleteFileW(path) && is_passing(GetLastError()); i++) {
    DWORD attributes = GetFileAttributesW(path);
    if (attributes == INVALID_FILE_ATTRIBUTES || (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return;
    Sleep(BUSY_WAIT_MS);
  }
}

void os_path_remove(const char *path) {
  WCHAR wide[WIDE_SIZE];
  if (to_wide_path(path, wide, WIDE_SIZE)) remove_file(wide);
}

void os_file_remove(int dir, const char *name) {
  WCHAR path[WIDE_SIZE];
  if (entry_path(dir, name, path)) remove_file(path);
}

/* ---- directories ---- */

bool os_directory_create(const char *path) {
  WCHAR wide[WIDE_SIZE];
  if (!to_wide_path(path, wide, WIDE_SIZE)) return false;
  return CreateDirectoryW(wide, NULL) || fail_last(); /* the access list is inherited from the state directory */
}

int os_directory_open(const char *path) {
  WCHAR wide[WIDE_SIZE];
  BY_HANDLE_FILE_INFORMATION info;
  if (!to_wide_path(path, wide, WIDE_SIZE)) return -1;
  HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES | SYNCHRONIZE, SHARE_ALL, NULL, OPEN_EXISTING,
                              FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
  if (handle == INVALID_HANDLE_VALUE) return fail_descriptor();
  bool known = GetFileInformationByHandle(handle, &info), link = known && (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
  if (!known || link || (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0) {
    CloseHandle(handle);
    errno = link ? ELOOP : ENOTDIR;
    return -1;
  }
  int fd = slot_open(SLOT_DIRECTORY, handle);
  if (fd < 0) return -1;
  slot_of(fd, SLOT_DIRECTORY)->name = _wcsdup(wide);
  if (slot_of(fd, SLOT_DIRECTORY)->name != NULL) return fd;
  os_close(fd);
  errno = ENOMEM;
  return -1;
}

bool os_directory_rename(const char *from, const char *to) {
  WCHAR wide[WIDE_SIZE], other[WIDE_SIZE];
  return to_wide_path(from, wide, WIDE_SIZE) && to_wide_path(to, other, WIDE_SIZE) && MoveFileExW(wide, other, 0) != 0;
}

void os_directory_remove(const char *path) {
  WCHAR wide[WIDE_SIZE];
  if (to_wide_path(path, wide, WIDE_SIZE)) (void)RemoveDirectoryW(wide);
}

/* ---- files ---- */

static HANDLE open_file(const WCHAR *path, DWORD access, DWORD how) {
  HANDLE file = INVALID_HANDLE_VALUE;
  for (int i = 0; i < BUSY_TRIES; i++) {
    file = CreateFileW(path, access, SHARE_ALL, NULL, how, FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (file != INVALID_HANDLE_VALUE || GetLastError() != ERROR_SHARING_VIOLATION) break;
    Sleep(BUSY_WAIT_MS);
  }
  if (file == INVALID_HANDLE_VALUE) (void)fail_last();
  return file;
}

/* FILE_APPEND_DATA without FILE_WRITE_DATA: the system writes at the end, wherever it is. */
int os_file_append_to(int dir, const char *name) {
  WCHAR path[WIDE_SIZE];
  if (!entry_path(dir, name, path)) return -1;
  HANDLE emptied = open_file(path, GENERIC_WRITE, CREATE_ALWAYS);
  if (emptied == INVALID_HANDLE_VALUE) return -1;
  HANDLE file = open_file(path, FILE_APPEND_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE, OPEN_EXISTING);
  CloseHandle(emptied);
  return file == INVALID_HANDLE_VALUE ? -1 : slot_open(SLOT_FILE, file);
}

bool os_file_create(int dir, const char *name) {
  WCHAR path[WIDE_SIZE];
  if (!entry_path(dir, name, path)) return false;
  HANDLE file = open_file(path, GENERIC_WRITE, CREATE_NEW);
  if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
  return file != INVALID_HANDLE_VALUE;
}

long os_file_append(int fd, const void *data, size_t size) {
  struct slot *slot = slot_of(fd, SLOT_FILE);
  DWORD done = 0;
  if (slot == NULL) return -1;
  if (!WriteFile(slot->handle, data, (DWORD)size, &done, NULL)) return fail_descriptor();
  return (long)done;
}

/* Through a second handle, because one that may write anywhere would not append. */
bool os_file_truncate(int fd, uint64_t size) {
  struct slot *slot = slot_of(fd, SLOT_FILE);
  if (slot == NULL) return false;
  HANDLE file = ReOpenFile(slot->handle, GENERIC_WRITE, SHARE_ALL, 0);
  if (file == INVALID_HANDLE_VALUE) return fail_last();
  FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = (LONGLONG)size};
  bool done = SetFileInformationByHandle(file, FileEndOfFileInfo, &end, sizeof end) || fail_last();
  CloseHandle(file);
  return done;
}

/* Only a sparse file has holes, and no file of ours is made one. */
int64_t os_file_hole(int fd) {
  struct os_file_info info;
  return os_file_info(fd, &info) ? (int64_t)info.size : -1;
}

/* Replaces `to` although a reader has it open, as far as the file system can. */
static bool replace(const WCHAR *from, const WCHAR *to) {
  struct {
    FILE_RENAME_INFO info;
    WCHAR rest[WIDE_SIZE];
  } rename;
  HANDLE file = CreateFileW(from, DELETE | SYNCHRONIZE, SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
  bool done = false;
  if (file != INVALID_HANDLE_VALUE) {
    memset(&rename, 0, sizeof rename);
    rename.info.Flags = FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS;
    rename.info.FileNameLength = (DWORD)(wcslen(to) * sizeof *to);
    wcscpy(rename.info.FileName, to);
    done = SetFileInformationByHandle(file, FileRenameInfoEx, &rename, sizeof rename);
    CloseHandle(file);
  }
  for (int i = 0; i < BUSY_TRIES && !done; i++) { /* another file system, or an old Windows */
    done = MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING);
    if (done || !is_passing(GetLastError())) break;
    Sleep(BUSY_WAIT_MS);
  }
  return done || fail_last();
}

/* Not worth while: a virus scanner may look at each file that is closed. */
void os_file_prepare(int dir, const char *name) {
  (void)dir;
  (void)name;
}

bool os_file_save(int dir, const char *name, const void *data, size_t size) {
  WCHAR from[WIDE_SIZE], to[WIDE_SIZE];
  char temporary[64];
  DWORD written = 0;
  snprintf(temporary, sizeof temporary, ".%s.new", name);
  if (!entry_path(dir, temporary, from) || !entry_path(dir, name, to)) return false;
  HANDLE file = open_file(from, GENERIC_WRITE, CREATE_ALWAYS);
  if (file == INVALID_HANDLE_VALUE) return false;
  bool done = WriteFile(file, data, (DWORD)size, &written, NULL) || fail_last();
  if (done && written != size) errno = ENOSPC, done = false;
  if (!CloseHandle(file) && done) done = fail_last();
  if (done && replace(from, to)) return true;
  int error = errno;
  (void)DeleteFileW(from);
  errno = error;
  return false;
}

/* Node on Windows cannot pass a descriptor on. */
int os_lock_inherited(int fd) {
  (void)fd;
  return ENOTSUP;
}
