import type { Socket } from "node:net";

interface Line {
  readonly waiting: (() => Promise<void>)[];
  busy: boolean;
  paused: boolean;
}

/** Requests read ahead on one connection: Node parses as many as arrive together. */
const READ_AHEAD = 32;

/**
 * Requests of one connection are handled one after the other, with a turn of the event loop in between, so that thousands
 * that arrive together do not keep other connections waiting and are not all read at once.
 */
export class Pipelines {
  readonly #lines = new WeakMap<Socket, Line>();

  /** `work` must not reject. */
  add(socket: Socket, work: () => Promise<void>): void {
    const line = this.#lines.get(socket) ?? { waiting: [], busy: false, paused: false };
    this.#lines.set(socket, line);
    line.waiting.push(work);
    if (!line.busy) this.#next(socket, line);
    else if (line.waiting.length >= READ_AHEAD && !line.paused) {
      line.paused = true;
      socket.pause();
    }
  }

  #next(socket: Socket, line: Line): void {
    const work = line.waiting.shift();
    line.busy = work !== undefined;
    if (line.paused && line.waiting.length < READ_AHEAD / 2) {
      line.paused = false;
      socket.resume();
    }
    if (work !== undefined) void work().then(() => setImmediate(() => this.#next(socket, line)));
  }
}
