import { signal } from "@preact/signals";
import { request } from "../../../api/client.js";
import { type KeptRange, readKeptRange, readLogPage, type Stream } from "../../../api/log-pages.js";
import type { OutputPiece } from "../../../api/types.js";
import { defaults } from "../../../defaults.js";
import { sleep, untilVisible, whileVisible } from "../../../live/page-visibility.js";

export interface LogPage {
  readonly offset: number;
  readonly nextOffset: number;
  readonly text: string;
}

const PAGE_BYTES = 32 * 1024;
/** Pages that are kept: some screens above and below the visible one. */
const MAX_PAGES = 8;

/**
 * A part of the output of one stream: consecutive pages of a log of any length. Pages that are far away are dropped and
 * read again when they come closer.
 */
export class LogWindow implements Disposable {
  readonly pages = signal<readonly LogPage[]>([]);
  readonly range = signal<KeptRange>({ first: 0, end: 0 });
  readonly error = signal<unknown>(null);
  /** The end is shown, and what is added to it. */
  readonly following = signal(true);
  readonly #runId: string;
  readonly stream: Stream;
  readonly #closed = new AbortController();
  #moving = false;

  constructor(runId: string, stream: Stream) {
    this.#runId = runId;
    this.stream = stream;
  }

  /** Shows the end, and follows it until the run has ended. */
  async open(): Promise<void> {
    const { signal: closed } = this.#closed;
    for (let ended = false; !ended && !closed.aborted;) {
      try {
        await untilVisible();
        if (this.pages.peek().length === 0 && this.following.peek()) await this.end();
        ended = await this.#waitForMore();
        this.error.value = null;
        if (!ended) await sleep(defaults.outputShowMs, closed);
      } catch (cause) {
        if (closed.aborted) return;
        if (!document.hidden) this.error.value = cause;
        await sleep(defaults.outputRetryMs, closed);
      }
    }
  }

  async end(): Promise<void> {
    this.following.value = true;
    this.range.value = await readKeptRange(this.#runId, this.stream, this.#closed.signal);
    const { first, end } = this.range.peek();
    if (end > first) await this.#show(Math.max(first, end - PAGE_BYTES));
  }

  /** Shows the output from an offset on. */
  async goTo(offset: number): Promise<void> {
    this.following.value = false;
    await this.#show(Math.max(offset, this.range.peek().first));
  }

  async earlier(): Promise<void> {
    const [top] = this.pages.peek();
    const { first } = this.range.peek();
    if (top === undefined || top.offset <= first) return;
    await this.#move(async () => {
      const from = Math.max(first, top.offset - PAGE_BYTES);
      const page = await this.#read(from, top.offset - from);
      // The oldest output may just have been dropped.
      if (page.nextOffset !== top.offset) return;
      this.pages.value = [page, ...this.pages.peek()].slice(0, MAX_PAGES);
    });
  }

  async later(): Promise<void> {
    const last = this.pages.peek().at(-1);
    if (last === undefined || last.nextOffset >= this.range.peek().end) return;
    await this.#move(async () => this.#append(await this.#read(last.nextOffset, PAGE_BYTES)));
  }

  [Symbol.dispose](): void {
    this.#closed.abort();
  }

  /** Waits for output behind the known end. True: the run has ended, and there is no more. */
  async #waitForMore(): Promise<boolean> {
    using visible = whileVisible(this.#closed.signal);
    const { end } = this.range.peek();
    const other =
      this.stream === "stdout" ? { stderr: Number.MAX_SAFE_INTEGER } : { stdout: Number.MAX_SAFE_INTEGER };
    const { run, output } = await request("poll", {
      params: { runId: this.#runId },
      query: { [this.stream]: end, ...other, waitMs: defaults.outputWaitMs, maxChars: PAGE_BYTES },
      signal: visible.signal,
    });
    const piece = output.find(({ stream }) => stream === this.stream);
    if (piece !== undefined && piece.nextOffset > end) this.#onMore(piece);
    return run.state === "exited" && (piece?.nextOffset ?? end) <= end;
  }

  #onMore(piece: OutputPiece): void {
    const last = this.pages.peek().at(-1);
    const { first, end } = this.range.peek();
    this.range.value = { first, end: piece.nextOffset };
    if (!this.following.peek()) return;
    if (last?.nextOffset === piece.offset) this.#append(piece);
    else if (last === undefined || last.nextOffset <= end) this.pages.value = [piece];
  }

  #append(page: LogPage): void {
    const pages = this.pages.peek();
    const last = pages.at(-1);
    if (last?.nextOffset !== page.offset || page.nextOffset <= page.offset) return;
    const joined = last.text.length + page.text.length <= PAGE_BYTES;
    const next = joined
      ? [...pages.slice(0, -1), { ...last, nextOffset: page.nextOffset, text: last.text + page.text }]
      : [...pages, page];
    this.pages.value = next.slice(-MAX_PAGES);
  }

  async #show(offset: number): Promise<void> {
    this.#moving = false;
    await this.#move(async () => {
      const page = await this.#read(offset, PAGE_BYTES);
      this.pages.value = [page];
    });
    await this.earlier();
    await this.later();
  }

  async #move(work: () => Promise<void>): Promise<void> {
    if (this.#moving) return;
    this.#moving = true;
    try {
      await work();
      this.error.value = null;
    } catch (cause) {
      if (!this.#closed.signal.aborted) this.error.value = cause;
    } finally {
      this.#moving = false;
    }
  }

  #read(offset: number, maxBytes: number): Promise<OutputPiece> {
    return readLogPage(this.#runId, { stream: this.stream, offset, maxBytes }, this.#closed.signal);
  }
}
