import { Counter } from 'prom-client'
import { type Metrics } from '../../../platform/metrics.ts'
import { type FindTally, type Tally } from '../../flags/flag-outcome.ts'

/** Series at most: beyond, new flags and variants are counted together, so that no client can exhaust the memory. */
const MAX_SERIES = 10_000

/**
 * Counts evaluations by project, flag and value. Requests add to plain numbers; the metrics read them when they are
 * scraped.
 */
export interface FlagTallies {
  /** The counters of a project; they outlive the definitions that are compiled with them. */
  forProject: (projectId: number) => FindTally
}

export function createFlagTallies (metrics: Metrics): FlagTallies {
  const series = new Map<string, { labels: Record<string, string>, tally: Tally }>()
  series.set('rest', { labels: { project: '', flag: 'rest', value: 'rest' }, tally: { count: 0 } })
  // Registers itself.
  void new Counter({
    registers: [metrics.registry],
    name: 'millrace_api_flag_evaluations_total',
    help: 'Answers given for a flag, by value: true, false, a variant, or failed.',
    labelNames: ['project', 'flag', 'value'],
    collect () {
      this.reset()
      // Also at 0: Prometheus sees no increase in a series that begins at 1.
      for (const { labels, tally } of series.values()) this.inc(labels, tally.count)
    }
  })

  return {
    forProject: (projectId) => (flag, value) => {
      const name = JSON.stringify([projectId, flag, value])
      const found = series.get(name) ?? (series.size > MAX_SERIES ? series.get('rest') : undefined)
      if (found !== undefined) return found.tally
      const fresh = { labels: { project: String(projectId), flag, value }, tally: { count: 0 } }
      series.set(name, fresh)
      return fresh.tally
    }
  }
}
