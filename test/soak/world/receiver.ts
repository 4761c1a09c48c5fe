import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { text } from "node:stream/consumers";

export interface ReceivedNotification {
  readonly id: string;
  readonly taskId: string;
  readonly status: string;
  readonly repeat: boolean;
  readonly at: number;
}

/** The receiver of a webhook: it records what arrives. */
export class Receiver implements AsyncDisposable {
  readonly received: ReceivedNotification[] = [];
  readonly #server: Server;

  private constructor(onReceived: (one: ReceivedNotification) => void) {
    this.#server = createServer((request, response) => {
      void text(request).then((body) => {
        const { data } = JSON.parse(body) as {
          readonly data: { readonly taskId: string; readonly status: string; readonly repeat?: true };
        };
        const id = String(request.headers["webhook-id"]);
        const one = {
          id,
          taskId: data.taskId,
          status: data.status,
          repeat: data.repeat === true,
          at: Date.now(),
        };
        this.received.push(one);
        onReceived(one);
        response.end("ok");
      });
    });
  }

  static async open(onReceived: (one: ReceivedNotification) => void = () => {}): Promise<Receiver> {
    const receiver = new Receiver(onReceived);
    receiver.#server.listen(0, "127.0.0.1");
    await once(receiver.#server, "listening");
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  of(taskId: string): ReceivedNotification[] {
    return this.received.filter((one) => one.taskId === taskId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}
