import { defaults } from "../../defaults.js";

/** How far one stream may be sent ahead of what its reader has taken. */
export class SendWindow {
  #acknowledged: number;
  #wake: () => void = () => {};
  #closed = false;

  constructor(from: number) {
    this.#acknowledged = from;
  }

  acknowledge(offset: number): void {
    this.#acknowledged = Math.max(this.#acknowledged, offset);
    this.#wake();
  }

  /** Nobody reads any more. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Resolves when so much may be on its way. */
  async waitForRoom(sent: number): Promise<void> {
    while (!this.#closed && sent - this.#acknowledged >= defaults.callerWindowBytes)
      await new Promise<void>((resolve) => (this.#wake = resolve));
  }
}
