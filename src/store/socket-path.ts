/** The longest path of a socket that a run will need below this state directory, in bytes. */
export function longestSocketPath(home: string): number {
  return Buffer.byteLength(`${home}/instances/123456789012/runs/1234567890123456/sock`);
}

/** unix(7): 108 bytes with the final zero; 104 on macOS. Windows has named pipes, not paths. */
export function socketPathLimit(platform: NodeJS.Platform): number {
  if (platform === "win32") return Number.POSITIVE_INFINITY;
  return platform === "darwin" ? 103 : 107;
}
