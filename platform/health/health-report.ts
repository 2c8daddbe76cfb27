/** One dependency or stage of a process: whether it works, and what an operator wants to know of it. */
export interface HealthPart {
  name: string
  healthy: boolean
  /** Lags, sizes, the last error: whatever the part can say. */
  [detail: string]: unknown
}

/** Answer of `/_health`, of the same shape on every tier. */
export interface HealthReport {
  status: 'ok' | 'degraded'
  /** Names of the parts that do not work, the cause first: services before the stages that wait for them. */
  stuck: string[]
  parts: HealthPart[]
}

/** Services that stages depend on: when one is away, it is the reason why the others wait. */
const SERVICES = new Set(['nats', 'clickhouse', 'postgres'])

/** Puts the parts of a process together and names those that are stuck. */
export function reportHealth (parts: readonly HealthPart[]): HealthReport {
  const failed = parts.filter(({ healthy }) => !healthy).map(({ name }) => name)
  const stuck = [...failed.filter((name) => SERVICES.has(name)), ...failed.filter((name) => !SERVICES.has(name))]
  return { status: stuck.length === 0 ? 'ok' : 'degraded', stuck, parts: [...parts] }
}
