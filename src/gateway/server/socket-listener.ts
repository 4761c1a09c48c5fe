import { chmod, lstat, unlink } from "node:fs/promises";
import type { RequestListener, Server } from "node:http";
import { connect, Server as NetServer } from "node:net";
import { defaults } from "../../defaults.js";
import { StateUnusable } from "../../errors.js";
import { socketAddress } from "../../home/local-socket.js";
import { writeOwnFile } from "../../home/own-file.js";
import { requireOwnSocket } from "../../home/path-trust.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import { type Listener, createBoundedServer, closeServer } from "./http-server.js";

/**
 * Listens on the socket of the state directory. The caller holds the gateway's lock, so an existing socket belongs to a
 * dead gateway. A socket that is deleted or replaced later is created again; open connections stay open.
 */
export async function listenOnSocket(
  home: string,
  requestMs: number,
  router: RequestListener,
  onProblem: (message: string, cause: unknown) => void,
): Promise<Listener> {
  const path = gatewaySocketPath(home);
  const server = createBoundedServer(router, requestMs);
  await removeSocket(path);
  let bound = await bindSocket(server, path).catch((cause: unknown) => {
    const why = (cause as Error).message;
    throw new StateUnusable(path, `the gateway cannot listen on ${path}: ${why}`, { cause });
  });
  let failure = "";
  const check = async (): Promise<void> => {
    const found = await fileId(path);
    if (found === bound) return;
    // Another process can remove the marker of a named pipe, but not the pipe.
    if (isPipe(path)) {
      if (found === null) bound = await writeMarker(path).catch(() => bound);
      return;
    }
    if (await isServedByOther(path)) return;
    // Closing unlinks whatever is at the path, so the new socket comes after. Not the HTTP server's own close, which
    // would end its idle connections.
    NetServer.prototype.close.call(server);
    try {
      await removeSocket(path);
      bound = await bindSocket(server, path);
      onProblem(`gateway.sock was deleted or replaced; the gateway listens on ${path} again`, null);
      failure = "";
    } catch (error) {
      const { message } = error as Error;
      if (message !== failure)
        onProblem(`gateway.sock was deleted or replaced, and cannot be made again; trying again`, error);
      failure = message;
    }
  };
  let checking = Promise.resolve();
  const timer = setInterval(() => {
    checking = checking.then(check);
  }, defaults.socketCheckMs).unref();
  return {
    server,
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await checking;
      await closeServer(server);
      // Node removes a socket file itself.
      if (isPipe(path)) await removeSocket(path);
    },
  };
}

/** Resolves with the identity of the socket file. */
async function bindSocket(server: Server, path: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // A connect to a Unix socket with a full backlog fails, so the backlog is as large as the connection limit.
    server.listen({ path: socketAddress(path), backlog: defaults.connections }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  if (isPipe(path)) return writeMarker(path);
  // The directory is private, too. This protects the socket if its permissions are relaxed.
  await chmod(path, 0o600);
  return (await fileId(path)) ?? "";
}

/** Windows has named pipes, which are no files: an empty file marks that the gateway listens. */
function isPipe(path: string): boolean {
  return socketAddress(path) !== path;
}

async function writeMarker(path: string): Promise<string> {
  writeOwnFile(path, "");
  return (await fileId(path)) ?? "";
}

/** A directory is not removed: it was not made by a gateway. */
async function removeSocket(path: string): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  });
}

/** The kernel keeps the inode of a bound socket, so its number is not given to another file. Null: there is none. */
async function fileId(path: string): Promise<string | null> {
  return lstat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => null,
  );
}

/** True if another process of this user listens on the socket. The gateway then does not replace the socket. */
function isServedByOther(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    try {
      requireOwnSocket(path);
    } catch {
      return resolve(false);
    }
    const socket = connect({ path });
    const settle = (served: boolean): void => {
      socket.destroy();
      resolve(served);
    };
    socket.once("connect", () => settle(true));
    // EAGAIN: its queue is full.
    socket.once("error", (error: NodeJS.ErrnoException) => settle(error.code === "EAGAIN"));
  });
}
