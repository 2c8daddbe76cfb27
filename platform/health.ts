/** One dependency or stage of a process: whether it works, and what an operator wants to know of it. */
export interface HealthPart {
  name: string
  healthy: boolean
  /** Age of the oldest work that waits for the part, in milliseconds. */
  lagMs?: number
  /** Lags, sizes, the last error: whatever the part can say. */
  [detail: string]: unknown
}

/** A part that works, but has something old to do. */
export interface BehindPart {
  name: string
  lagMs: number
}

/** Answer of `/_health`, of the same shape on every tier. */
export interface HealthReport {
  /**
   * - `ok`: everything works, and nothing waits for long.
   * - `behind`: everything works, and something waits for longer than `BEHIND_MS`, as while it is caught up.
   * - `degraded`: something does not work.
   */
  status: 'ok' | 'behind' | 'degraded'
  /** Names of the parts that do not work, the cause first: services before the stages that wait for them. */
  stuck: string[]
  /** The parts with old work, whether they work or not; the oldest work first. */
  behind: BehindPart[]
  parts: HealthPart[]
}

/** From this age on, in milliseconds, waiting work is old: without a backlog an event waits for a second or two. */
export const BEHIND_MS = 30_000

/** Services that stages depend on: when one is unavailable, it is the reason why the others wait. */
const SERVICES = new Set(['nats', 'clickhouse', 'postgres'])

/** Puts the parts of a process together and names those that are stuck or behind. */
export function reportHealth (parts: readonly HealthPart[]): HealthReport {
  const failed = parts.filter(({ healthy }) => !healthy).map(({ name }) => name)
  const stuck = [...failed.filter((name) => SERVICES.has(name)), ...failed.filter((name) => !SERVICES.has(name))]
  const behind = parts.map(({ name, lagMs = 0 }) => ({ name, lagMs })).filter(({ lagMs }) => lagMs > BEHIND_MS)
    .sort((one, other) => other.lagMs - one.lagMs)
  const status = stuck.length > 0 ? 'degraded' : behind.length > 0 ? 'behind' : 'ok'
  return { status, stuck, behind, parts: [...parts] }
}

/**
 * The HTTP status of a report: 503 when something does not work. A process that is only behind works as it should, and
 * anyone who restarts it for that makes it later still.
 */
export function healthStatusCode ({ status }: Pick<HealthReport, 'status'>): 200 | 503 {
  return status === 'degraded' ? 503 : 200
}

/** An orchestrator asks every few seconds and must not pile up behind a service that hangs. In milliseconds. */
const CHECK_TIMEOUT_MS = 2000

/**
 * How long `/_readiness` waits for a dependency, in milliseconds: balancers give up after a second or two, and a
 * dependency that hangs must not look like a process that does.
 */
export const READINESS_CHECK_MS = 500

/**
 * How long the origin's `/_readiness` waits for that of the API, in milliseconds: longer than the API waits for its own
 * dependencies, or one that hangs there would look like an API that does.
 */
export const API_READINESS_CHECK_MS = READINESS_CHECK_MS + 400

/**
 * Asks a service whether it answers.
 *
 * @param check  Rejects when it does not. The text of its error is not passed on: it may name users and addresses.
 * @param timeoutMs  How long it may take.
 */
export async function checkService (
  name: string, check: () => Promise<unknown>, timeoutMs = CHECK_TIMEOUT_MS
): Promise<HealthPart> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('late')), timeoutMs)
  const startedAt = performance.now()
  try {
    await Promise.race([check(), late])
    return { name, healthy: true, answerMs: Math.round(performance.now() - startedAt) }
  } catch (error) {
    const code = (error as { code?: unknown }).code
    return { name, healthy: false, lastError: typeof code === 'string' ? code : `no answer within ${timeoutMs} ms` }
  } finally {
    clearTimeout(timer)
  }
}

/** The ping of the ClickHouse client never rejects; a check does. */
export async function pingClickHouse (client: {
  ping: () => Promise<{ success: true } | { success: false, error: Error }>
}): Promise<void> {
  const result = await client.ping()
  if (!result.success) throw result.error
}
