import { StoreAway } from "../../errors.js";
import type { Courier } from "../../tasks/notification.js";
import { Notifier } from "../../tasks/notifier.js";
import { Tasks } from "../../tasks/tasks.js";
import { TaskMetrics } from "../task-metrics.js";
import { Background, type BackgroundParts } from "./background.js";
import { TaskTail } from "./task-tail.js";

export interface WorkParts extends Omit<BackgroundParts, "tasks" | "tail"> {
  readonly courier: Courier;
  readonly instanceId: string;
}

/** Tasks, those who look after them, and who tells of them. */
export interface Work extends AsyncDisposable {
  readonly tasks: Tasks;
  readonly background: Background;
  readonly tail: TaskTail;
  readonly metrics: TaskMetrics;
  /** There is something to send. */
  send(): void;
  /** Give every task its true status, after a restart too, and send what is to be told. */
  lookAfter(): Promise<void>;
}

export function openWork({ courier, instanceId, ...parts }: WorkParts): Work {
  const { store, problem } = parts;
  const metrics = new TaskMetrics(store);
  const notifier = new Notifier({
    store,
    courier,
    owner: instanceId,
    onSettled: (status) => metrics.attempted(status),
    onTrouble: (what, cause) => {
      // A store that is away is told of by those who look at it less often.
      if (!(cause instanceof StoreAway))
        problem({ runId: null, message: `${what} could not be seen to; trying again`, cause });
    },
  });
  const send = (): void => notifier.wake();
  const tasks = new Tasks({ store, onNotice: send, onEnd: (status) => metrics.ended(status) });
  const tail = new TaskTail(store);
  const background = new Background({ ...parts, tasks, tail });
  return {
    tasks,
    background,
    tail,
    metrics,
    send,
    lookAfter: async () => {
      notifier.start();
      await background.maintain(true, false);
    },
    async [Symbol.asyncDispose]() {
      await notifier.stop();
      await background[Symbol.asyncDispose]();
      tail.end();
    },
  };
}
