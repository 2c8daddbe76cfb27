import { createReadStores } from '../../../api/status/read-status.ts'
import { FAULT_PERSONAL_KEY, type FaultSystem } from '../system/fault-system.ts'

/** Who repeats the watermark. */
export const CLAIM_SOURCES = ['definitions', 'experiment results', 'status', 'metric', 'health'] as const
export type ClaimSource = (typeof CLAIM_SOURCES)[number]

/** Somebody says that everything received before is stored. */
export interface Claim {
  source: ClaimSource
  /** Epoch milliseconds. */
  through: number
}

const TIMEOUT_MS = 5000

/**
 * The metric tells an age by the clock of NATS, which a process knows from what it hears of it: so much of it, in
 * milliseconds, may be the way.
 */
const METRIC_TOLERANCE_MS = 1000

/** Returns a function that asks everybody who repeats the watermark. It never rejects: no answer is no claim. */
export function createReadClaims (
  { api, pipeline, connection, stored, sql }: Pick<FaultSystem, 'api' | 'pipeline' | 'connection' | 'stored' | 'sql'>
): () => Promise<Claim[]> {
  const readStores = createReadStores({
    nats: async () => connection, clickhouse: async () => stored, postgres: async () => sql
  })
  let experiment: number | null = null

  async function call<T> (method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`http://127.0.0.1:${api.port}/api/projects/1/${path}`, {
      method, signal: AbortSignal.timeout(TIMEOUT_MS),
      headers: { authorization: `Bearer ${FAULT_PERSONAL_KEY}`, 'content-type': 'application/json' },
      ...body === undefined ? {} : { body: JSON.stringify(body) }
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status}`)
    return await response.json() as T
  }

  async function launchExperiment (): Promise<number> {
    const { id } = await call<{ id: number }>('POST', 'experiments/', {
      name: 'watched', feature_flag_key: `watched-${Date.now()}`, filters: { insight: 'FUNNELS', events: [{ id: 'fault event 0' }] }
    })
    await call('PATCH', `experiments/${id}/`, { start_date: new Date(Date.now() - 60_000).toISOString() })
    return id
  }

  type Answer = Promise<string | number | null>
  const read: Record<ClaimSource, () => Answer> = {
    definitions: async () => (await call<Answered>('GET', 'event_definitions/?limit=1')).complete_through,
    'experiment results': async () => {
      experiment ??= await launchExperiment()
      return (await call<Answered>('GET', `experiments/${experiment}/results?refresh=true`)).complete_through
    },
    status: async () => (await readStores()).watermark?.completeThrough ?? null,
    metric: async () => await highestOf(pipeline, async (port) => {
      const askedAt = Date.now()
      const lag = /^millrace_pipeline_watermark_lag_seconds (\d\S*)/m.exec(await ask(port, '/metrics'))?.[1]
      return lag === undefined ? null : askedAt - Number(lag) * 1000 - METRIC_TOLERANCE_MS
    }),
    health: async () => await highestOf(pipeline, async (port) => {
      const { parts } = JSON.parse(await ask(port, '/_health')) as { parts: { name: string, completeThrough?: string }[] }
      return parts.find(({ name }) => name === 'watermark')?.completeThrough ?? null
    })
  }
  return async () => {
    const claims = await Promise.all(CLAIM_SOURCES.map(async (source) => {
      const answer = await read[source]().catch(() => null)
      return answer === null ? [] : [{ source, through: typeof answer === 'number' ? Math.floor(answer) : Date.parse(answer) }]
    }))
    return claims.flat()
  }
}

interface Answered {
  complete_through: string | null
}

async function ask (port: number, path: string): Promise<string> {
  return await (await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(TIMEOUT_MS) })).text()
}

/** The highest that one of the processes says: one that keeps the watermark, or believes that it does. */
async function highestOf (
  processes: FaultSystem['pipeline'], read: (port: number) => Promise<string | number | null>
): Promise<number | null> {
  const answers = await Promise.all(processes.map(async ({ port }) => await read(port).catch(() => null)))
  const known = answers.filter((answer) => answer !== null)
    .map((answer) => typeof answer === 'number' ? answer : Date.parse(answer))
  return known.length === 0 ? null : Math.max(...known)
}
