import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";

/** `request`: the statement does not arrive. `answer`: it arrives, and its result does not. */
export type CutPoint = "request" | "answer";

export interface CuttableProxy extends AsyncDisposable {
  /** Instead of the server's directory. */
  readonly directory: string;
  /** Forwards this many packets in that direction, and closes the connection at the next. */
  cut(what: CutPoint, passing: number): void;
  /** Forwards everything again. True: the connection was cut. */
  mend(): boolean;
  /** Drops everything until `mend`. */
  mute(): void;
}

/** A proxy to a server's socket whose connections can be cut. */
export async function startCuttableProxy(serverDirectory: string): Promise<CuttableProxy> {
  const directory = await mkdtemp(join(tmpdir(), "hf-px-"));
  const sockets = new Set<Socket>();
  let armed: { readonly what: CutPoint; passing: number } | null = null;
  let happened = false;
  let muted = false;
  const server = createServer((client) => {
    const upstream = connect(join(serverDirectory, ".s.PGSQL.5432"));
    const pair = [client, upstream] as const;
    const hangUp = (): void => pair.forEach((socket) => socket.destroy());
    const forward = (from: Socket, to: Socket, direction: CutPoint): void => {
      sockets.add(from);
      from.on("error", hangUp);
      from.on("close", () => {
        sockets.delete(from);
        hangUp();
      });
      from.on("data", (piece) => {
        if (muted) return;
        if (armed?.what === direction) {
          if (armed.passing === 0) {
            armed = null;
            happened = true;
            return hangUp();
          }
          armed.passing -= 1;
        }
        to.write(piece);
      });
    };
    forward(client, upstream, "request");
    forward(upstream, client, "answer");
  });
  server.listen(join(directory, ".s.PGSQL.5432"));
  await once(server, "listening");
  return {
    directory,
    cut(what, passing) {
      armed = { what, passing };
      happened = false;
    },
    mend() {
      armed = null;
      muted = false;
      return happened;
    },
    mute() {
      muted = true;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
      await rm(directory, { recursive: true, force: true });
    },
  };
}
