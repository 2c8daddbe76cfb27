import { type HealthPart } from './health-report.ts'

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
