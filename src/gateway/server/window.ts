import { defaults } from "../../defaults.js";

/** How far one stream may be sent ahead of what its reader has taken. */
export class Window {
  #taken: number;
  #wake: () => void = () => {};
  #ended = false;

  constructor(from: number) {
    this.#taken = from;
  }

  taken(offset: number): void {
    this.#taken = Math.max(this.#taken, offset);
    this.#wake();
  }

  /** Nobody reads any more. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** Resolves when so much may be on its way. */
  async room(sent: number): Promise<void> {
    while (!this.#ended && sent - this.#taken >= defaults.callerWindowBytes)
      await new Promise<void>((resolve) => (this.#wake = resolve));
  }
}
