import type { Random } from "./random.js";

/** The subject of an event: a supervisor, an anchor, a launcher, a kernel. */
export interface Actor {
  /** It has ended; pending messages to it are lost. */
  readonly gone: boolean;
  /** Stopped: pending messages to it wait. */
  readonly held: boolean;
  readonly timebase: Timebase;
}

/** The monotonic clock of one machine. */
export interface Timebase {
  readonly monotonic: number;
}

interface Alarm {
  readonly at: number;
  readonly order: number;
  readonly actor: Actor;
  readonly ring: () => void;
}

/** Things that happen in their order, at moments of the schedule's choosing. */
export class OrderedQueue {
  readonly items: (() => void)[] = [];
  readonly #scheduler: Scheduler;
  readonly actor: Actor;

  constructor(scheduler: Scheduler, actor: Actor) {
    this.#scheduler = scheduler;
    this.actor = actor;
  }

  post(happen: () => void): void {
    this.items.push(happen);
    this.#scheduler.busy.add(this);
  }

  clear(): void {
    this.items.length = 0;
    this.#scheduler.busy.delete(this);
  }
}

/** All pending events of the world, and the time. The schedule picks the next event. */
export class Scheduler {
  readonly busy = new Set<OrderedQueue>();
  readonly #random: Random;
  #alarms: Alarm[] = [];
  /** The first due alarm of each actor; kept to be filled again. */
  readonly #due = new Map<Actor, Alarm>();
  #order = 0;
  /** Milliseconds that have truly passed. */
  now = 0;
  /** After each turn; throws when an invariant is broken. */
  afterTurn: () => void = () => undefined;

  constructor(random: Random) {
    this.#random = random;
  }

  /** At some later moment, in no order with anything else. */
  post(actor: Actor, happen: () => void): void {
    new OrderedQueue(this, actor).post(happen);
  }

  after(actor: Actor, ms: number, ring: () => void): () => void {
    const alarm = { at: actor.timebase.monotonic + Math.max(0, ms), order: this.#order++, actor, ring };
    this.#alarms.push(alarm);
    return () => {
      const at = this.#alarms.indexOf(alarm);
      if (at >= 0) this.#alarms.splice(at, 1);
    };
  }

  /** Let one pending thing happen. False: there is none. */
  async deliverOne(): Promise<boolean> {
    const ready = this.#ready();
    if (ready.length === 0) return false;
    this.#happen(this.#random.pick(ready));
    await this.#turn();
    return true;
  }

  /** Runs all pending events and their consequences without advancing time. */
  async deliverAll(): Promise<void> {
    for (let rounds = 0; ; rounds++) {
      const ready = this.#ready();
      if (ready.length === 0) return;
      if (rounds > 20_000) throw new Error("the world does not come to rest");
      for (const each of this.#random.shuffle(ready)) this.#happen(each);
      await this.#turn();
    }
  }

  /** Advances time; every alarm fires on time. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms;
    for (;;) {
      await this.deliverAll();
      const next = this.nextAlarm();
      if (next === null || this.now + next > until) break;
      this.now += Math.max(0, next);
    }
    this.now = until;
    await this.deliverAll();
  }

  /** Milliseconds until the next alarm of a running actor. */
  nextAlarm(): number | null {
    let soonest: number | null = null;
    for (const { actor, at } of this.#alarms) {
      if (actor.gone || actor.held) continue;
      const left = at - actor.timebase.monotonic;
      if (soonest === null || left < soonest) soonest = left;
    }
    return soonest;
  }

  #ready(): (OrderedQueue | Alarm)[] {
    const ready: (OrderedQueue | Alarm)[] = [];
    for (const channel of this.busy) {
      if (channel.actor.gone) channel.clear();
      else if (!channel.actor.held) ready.push(channel);
    }
    this.#due.clear();
    let ended = false;
    for (const alarm of this.#alarms) {
      const { actor, at, order } = alarm;
      if (actor.gone) {
        ended = true;
        continue;
      }
      if (actor.held || at > actor.timebase.monotonic) continue;
      const first = this.#due.get(actor);
      if (first === undefined || at < first.at || (at === first.at && order < first.order))
        this.#due.set(actor, alarm);
    }
    if (ended) this.#alarms = this.#alarms.filter(({ actor }) => !actor.gone);
    for (const alarm of this.#due.values()) ready.push(alarm);
    return ready;
  }

  #happen(event: OrderedQueue | Alarm): void {
    if (event instanceof OrderedQueue) this.#take(event);
    else this.#ring(event);
  }

  #take(channel: OrderedQueue): void {
    // An earlier event of this round may have changed the actor.
    if (channel.actor.gone || channel.actor.held) return;
    const happen = channel.items.shift();
    if (channel.items.length === 0) this.busy.delete(channel);
    happen?.();
  }

  #ring(alarm: Alarm): void {
    const at = this.#alarms.indexOf(alarm);
    if (at < 0 || alarm.actor.gone || alarm.actor.held) return;
    this.#alarms.splice(at, 1);
    alarm.ring();
  }

  /** Everything that follows at once has happened when the loop comes round again. */
  async #turn(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.afterTurn();
  }
}
