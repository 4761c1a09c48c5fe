import { HoldfastError } from "./base.js";

/** The state directory, its store or its lock cannot be used. */
export class StateUnusable extends HoldfastError {
  readonly path: string;
  constructor(path: string, message: string, options?: ErrorOptions) {
    super("STATE_UNUSABLE", message, options);
    this.path = path;
  }
}

/** Another user could replace a file of this user's Holdfast or listen on its sockets. Nothing was sent or started. */
export class UnsafePath extends StateUnusable {
  override readonly code = "UNSAFE_PATH";
}

/** An older version wrote the store. A reader does not change it; a gateway migrates it. */
export class StoreOutdated extends StateUnusable {}

/** The state directory is a copy: its ids and open runs belong to the original. Nothing was touched or started. */
export class StateCopied extends StateUnusable {
  override readonly code = "STATE_COPIED";
  readonly original: string;
  constructor(home: string, original: string, originalExists: boolean) {
    const keep = originalExists
      ? ""
      : ", or use `holdfast state keep-identity` if it replaces the original, which is gone";
    super(
      home,
      `the state directory ${home} is a copy of ${original}, and the runs in it belong to the original. Nothing was touched or started. Give the copy its own identity with \`holdfast state reset-identity\`${keep}`,
    );
    this.original = original;
  }
}

/** The database does not answer, or accepts no writes. It may recover by itself. */
export class StoreAway extends StateUnusable {
  override readonly code = "STORE_AWAY";
}

/** The store could not be read while looking up a record, so it is not known whether the record exists. */
export class StoreUnreadable extends HoldfastError {
  constructor(what: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      "STORE_UNREADABLE",
      `${what}: the store cannot be read, so it is not known whether this exists: ${why}`,
      { cause },
    );
  }
}

export class InstanceLocked extends HoldfastError {
  readonly instanceId: string;
  constructor(
    instanceId: string,
    message = `instance ${instanceId} is in use by another live supervisor; nothing was changed`,
  ) {
    super("INSTANCE_LOCKED", message);
    this.instanceId = instanceId;
  }
}

/** Another process of the same instance has replaced this one, which no longer controls or signals runs. */
export class InstanceTaken extends HoldfastError {
  readonly instanceId: string;
  constructor(instanceId: string, evidence: string) {
    super(
      "INSTANCE_TAKEN",
      `another process of instance ${instanceId} has replaced this one: ${evidence}. This process has stopped and left all runs to the other process; no run was ended`,
    );
    this.instanceId = instanceId;
  }
}

/** The records of one store cannot be copied to another now. Neither store was changed. */
export class CopyRefused extends HoldfastError {
  constructor(why: string) {
    super("COPY_REFUSED", `nothing was copied: ${why}`);
  }
}
