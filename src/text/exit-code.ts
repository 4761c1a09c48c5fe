/** From here on, the exit code of a Windows process is an NTSTATUS of an error, which is known by its hexadecimal form. */
const FIRST_ERROR_STATUS = 0x8000_0000;

/** `0`, `3`, `0xC0000005`. */
export function formatExitCode(code: number): string {
  return code < FIRST_ERROR_STATUS ? String(code) : `0x${code.toString(16).toUpperCase().padStart(8, "0")}`;
}
