import { HoldfastError } from "./base.js";

/** The request is invalid. Nothing was recorded and nothing was started. */
export class BadInput extends HoldfastError {
  readonly field: string;
  constructor(field: string, message: string) {
    super("BAD_INPUT", message);
    this.field = field;
  }
}

/** The object does not exist, or the requester may not see it: the two look the same. */
export class NotFound extends HoldfastError {
  constructor(what: string) {
    super("NOT_FOUND", `there is no ${what}`);
  }

  static session(wanted: string): NotFound {
    return new NotFound(`session ${wanted.slice(0, 200)}; \`holdfast sessions list --all\` lists all`);
  }

  static task(wanted: string): NotFound {
    return new NotFound(`task ${wanted.slice(0, 200)}; \`holdfast tasks list\` lists all`);
  }
}

export class Unauthorized extends HoldfastError {
  constructor(why: string) {
    super("UNAUTHORIZED", `${why}; nothing was done`);
  }
}

/** A request over TCP names a host or a web origin that is not this machine. */
export class ForeignOrigin extends HoldfastError {
  readonly header: string;
  constructor(header: "Host" | "Origin", value: string) {
    super(
      "FOREIGN_ORIGIN",
      `the ${header} ${JSON.stringify(value)} is not a name of this machine; nothing was done`,
    );
    this.header = header;
  }
}

export class TooLarge extends HoldfastError {
  readonly limit: number;
  constructor(limit: number) {
    super("TOO_LARGE", `the request is larger than ${limit} bytes; nothing was done`);
    this.limit = limit;
  }
}

/** The caller has reached a limit: requests per second, or requests, connections or bytes at the same time. */
export class TooManyRequests extends HoldfastError {
  /** True if the connection itself exceeds a limit. The gateway closes it after the answer. */
  readonly close: boolean;
  constructor(limit: string, { close = false }: { readonly close?: boolean } = {}) {
    super(
      "TOO_MANY_REQUESTS",
      `too many requests: the requester already has ${limit}; nothing was done, try again in a moment`,
    );
    this.close = close;
  }
}

/** The session has reached its limit of open streams. */
export class TooManyStreams extends HoldfastError {
  constructor(limit: number) {
    super(
      "TOO_MANY_STREAMS",
      `too many streams: the session already has ${limit} open (events, updates, attached terminals); nothing was done, close one and try again`,
    );
  }
}

/** The requester is a session, and the request is for the operator only. */
export class OperatorOnly extends HoldfastError {
  constructor(what: string) {
    super(
      "OPERATOR_ONLY",
      `only the operator may ${what}, and HOLDFAST_TOKEN acts for a session; nothing was done. HOLDFAST_AS_OPERATOR=1 acts as the operator`,
    );
  }
}
