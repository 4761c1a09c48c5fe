/* Windows: text and error numbers. */
#include "os/windows/windows.h"

#include <bcrypt.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
  DWORD windows;
  int number;
} errors[] = {
    {ERROR_FILE_NOT_FOUND, ENOENT},      {ERROR_PATH_NOT_FOUND, ENOENT},        {ERROR_INVALID_DRIVE, ENOENT},
    {ERROR_BAD_NETPATH, ENOENT},         {ERROR_INVALID_NAME, ENOENT},          {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_ACCESS_DENIED, EACCES},       {ERROR_SHARING_VIOLATION, EBUSY},      {ERROR_LOCK_VIOLATION, EBUSY},
    {ERROR_PIPE_BUSY, EBUSY},            {ERROR_DELETE_PENDING, EBUSY},         {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},      {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},      {ERROR_DISK_FULL, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},    {ERROR_DISK_QUOTA_EXCEEDED, ENOSPC},   {ERROR_FILE_TOO_LARGE, EFBIG},
    {ERROR_WRITE_PROTECT, EROFS},        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},     {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_COMMITMENT_LIMIT, ENOMEM},    {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},   {ERROR_NOT_ENOUGH_QUOTA, ENOMEM},
    {ERROR_WORKING_SET_QUOTA, ENOMEM},   {ERROR_TOO_MANY_OPEN_FILES, EMFILE},   {ERROR_BROKEN_PIPE, EPIPE},
    {ERROR_NO_DATA, EPIPE},              {ERROR_PIPE_NOT_CONNECTED, EPIPE},     {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG}, {ERROR_BUFFER_OVERFLOW, ENAMETOOLONG}, {ERROR_BAD_EXE_FORMAT, ENOEXEC},
    {ERROR_EXE_MACHINE_TYPE_MISMATCH, ENOEXEC}, {ERROR_ELEVATION_REQUIRED, EPERM}, {ERROR_PRIVILEGE_NOT_HELD, EPERM},
    {ERROR_NOT_SUPPORTED, ENOTSUP},      {ERROR_CALL_NOT_IMPLEMENTED, ENOTSUP}, {ERROR_INVALID_FUNCTION, ENOTSUP},
};

bool fail_with(DWORD error) {
  errno = error == ERROR_INVALID_PARAMETER ? EINVAL : EIO;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].windows == error) errno = errors[i].number;
  return false;
}

bool fail_last(void) { return fail_with(GetLastError()); }

int fail_descriptor(void) {
  (void)fail_last();
  return -1;
}

bool to_wide(const char *text, WCHAR *out, size_t size) {
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, (int)size) > 0) return true;
  errno = GetLastError() == ERROR_INSUFFICIENT_BUFFER ? ENAMETOOLONG : EILSEQ;
  return false;
}

bool to_wide_path(const char *path, WCHAR *out, size_t size) {
  WCHAR wide[WIDE_SIZE];
  if (!to_wide(path, wide, WIDE_SIZE)) return false;
  for (WCHAR *at = wide; *at != 0; at++)
    if (*at == L'/') *at = L'\\';
  bool drive = wide[0] != 0 && wide[1] == L':' && wide[2] == L'\\';
  bool share = wide[0] == L'\\' && wide[1] == L'\\' && wide[2] != L'?' && wide[2] != L'.';
  int length = swprintf(out, size, L"%ls%ls", drive ? L"\\\\?\\" : share ? L"\\\\?\\UNC" : L"", share ? wide + 1 : wide);
  if (length >= 0) return true;
  errno = ENAMETOOLONG;
  return false;
}

size_t to_utf8(const WCHAR *text, long length, char *out, size_t size) {
  if (size == 0) return 0;
  if (length < 0) length = (long)wcslen(text);
  int done = 0;
  while (length > 0 && (done = WideCharToMultiByte(CP_UTF8, 0, text, (int)length, out, (int)size - 1, NULL, NULL)) == 0) {
    if (GetLastError() != ERROR_INSUFFICIENT_BUFFER) break;
    length -= length > 16 ? length / 8 : 1;
    if (length > 0 && text[length - 1] >= 0xd800 && text[length - 1] < 0xdc00) length--; /* half of a character */
  }
  out[done] = 0;
  return (size_t)done;
}

bool hash_name(const char *text, size_t length, char out[33]) {
  UCHAR digest[32];
  BCRYPT_ALG_HANDLE algorithm = NULL;
  if (BCryptOpenAlgorithmProvider(&algorithm, BCRYPT_SHA256_ALGORITHM, NULL, 0) != 0) {
    errno = ENOTSUP;
    return false;
  }
  bool done = BCryptHash(algorithm, NULL, 0, (UCHAR *)(uintptr_t)text, (ULONG)length, digest, sizeof digest) == 0;
  (void)BCryptCloseAlgorithmProvider(algorithm, 0);
  for (int i = 0; i < 16 && done; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
  if (!done) errno = EIO;
  return done;
}
