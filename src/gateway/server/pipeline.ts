import type { Socket } from "node:net";

interface ConnectionQueue {
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
export class RequestPipelines {
  readonly #queues = new WeakMap<Socket, ConnectionQueue>();

  /** `work` must not reject. */
  add(socket: Socket, work: () => Promise<void>): void {
    const queue = this.#queues.get(socket) ?? { waiting: [], busy: false, paused: false };
    this.#queues.set(socket, queue);
    queue.waiting.push(work);
    if (!queue.busy) this.#next(socket, queue);
    else if (queue.waiting.length >= READ_AHEAD && !queue.paused) {
      queue.paused = true;
      socket.pause();
    }
  }

  #next(socket: Socket, queue: ConnectionQueue): void {
    const work = queue.waiting.shift();
    queue.busy = work !== undefined;
    if (queue.paused && queue.waiting.length < READ_AHEAD / 2) {
      queue.paused = false;
      socket.resume();
    }
    if (work !== undefined) void work().then(() => setImmediate(() => this.#next(socket, queue)));
  }
}
