import { type HealthReport } from '../../platform/health/health-report.ts'
import { parseMetrics, type MetricSamples } from './parse-metrics.ts'

export type TierName = 'ingest' | 'pipeline' | 'api'

/** What one process said about itself. */
export interface TierReading {
  tier: TierName
  url: string
  /** Monotonic milliseconds of the reading. */
  readAt: number
  /** null: the process does not answer. */
  health: HealthReport | null
  metrics: MetricSamples
}

const TIMEOUT_MS = 4000

/** Asks a process for its health and its metrics. Never rejects: one that does not answer is a finding. */
export async function readTier (tier: TierName, url: string): Promise<TierReading> {
  const readAt = performance.now()
  try {
    const [health, metrics] = await Promise.all([ask(url, '/_health'), ask(url, '/metrics')])
    return { tier, url, readAt, health: JSON.parse(health) as HealthReport, metrics: parseMetrics(metrics) }
  } catch {
    return { tier, url, readAt, health: null, metrics: parseMetrics('') }
  }
}

async function ask (url: string, path: string): Promise<string> {
  const response = await fetch(new URL(path, url), { signal: AbortSignal.timeout(TIMEOUT_MS) })
  // 503 of /_health carries the answer.
  return await response.text()
}
