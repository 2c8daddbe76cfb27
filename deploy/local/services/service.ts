import { type ManagedProcess } from '../processes/spawn-process.ts'

/** A running part of the embedded stack. */
export interface Service extends ManagedProcess {
  /** What `NATS_URL`, `DATABASE_URL` or `CLICKHOUSE_URL` is set to in order to use it, password included. */
  readonly url: string
  readonly port: number
}

/** What every service is started with. */
export interface ServiceOptions {
  /** Keeps its files in a folder of its own below; several stacks use several folders. */
  dataDir: string
  /** Port on 127.0.0.1; 0 takes a free one. */
  port: number
  /** Gives the start up: what was started is stopped, and the start rejects. */
  signal?: AbortSignal | undefined
  /** Told of the process at once, before it is ready. */
  onSpawn?: ((child: ManagedProcess) => void) | undefined
  /** After this long an ending service is killed, in milliseconds. Default 8,000. */
  stopTimeoutMs?: number | undefined
}
