import { createMetrics, type Counter, type Histogram, type Metrics } from '../platform/metrics.ts'
import { type LaneState } from './lanes/lane-state.ts'
import { CLICKHOUSE_ERRORS } from './writer/insert/classify-clickhouse-error.ts'
import { WRITER_REFUSALS } from './writer/settle/set-aside.ts'

/** What a pipeline process counts. Every outcome of an event has a counter: stored, left out, dead-lettered. */
export interface PipelineMetrics {
  metrics: Metrics
  storedRows: Counter<'lane'>
  storedBatches: Counter<'lane'>
  leftOutRows: Counter<'lane'>
  deadLetters: Counter<'stage' | 'reason'>
  deadLettersWaiting: Counter<'lane'>
  insertRetries: Counter<'lane' | 'code'>
  refusedBatches: Counter<'lane' | 'code'>
  confirmedRows: Counter<'lane'>
  insertSeconds: Histogram<'lane'>
  batchRows: Histogram<'lane'>
  batchBytes: Histogram<'lane'>
  storedAgeSeconds: Histogram<'lane'>
  /** Starts the counters of a lane at 0. Called when the process takes the lane, before it counts anything. */
  startLane: (lane: string) => void
}

/** @param lanes  The lanes this process writes at the moment. */
export function createPipelineMetrics (lanes: () => Iterable<LaneState>): PipelineMetrics {
  const metrics = createMetrics('pipeline')
  const lane = ['lane'] as const
  const ofLane = { lane: null }
  addLaneGauges(metrics, lanes)
  const byLane = {
    storedRows: metrics.counter('rows_stored_total', 'Rows that ClickHouse confirmed.', ofLane),
    storedBatches: metrics.counter('batches_stored_total', 'Inserts that ClickHouse confirmed.', ofLane),
    leftOutRows: metrics.counter('rows_left_out_total', 'Rows left out because the same event is stored already.', ofLane),
    deadLettersWaiting: metrics.counter('dead_letter_refusals_total', 'Dead letters that the full stream refused; the lane waits.', ofLane),
    confirmedRows: metrics.counter('rows_looked_up_total', 'Rows looked up in ClickHouse before they were inserted.', ofLane)
  }
  const byCode = {
    insertRetries: metrics.counter('insert_retries_total', 'Inserts tried again, by ClickHouse error.', { lane: null, code: null }),
    refusedBatches: metrics.counter('batches_refused_total', 'Inserts refused for their rows, by ClickHouse error.', { lane: null, code: null })
  }
  const histograms = {
    insertSeconds: metrics.histogram('insert_seconds', 'Time of a confirmed insert.', [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30], lane),
    batchRows: metrics.histogram('batch_rows', 'Rows of a confirmed insert.', [1, 10, 100, 1000, 10_000, 100_000], lane),
    batchBytes: metrics.histogram('batch_bytes', 'Compressed bytes of the messages of a confirmed insert.',
      [1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000], lane),
    storedAgeSeconds: metrics.histogram('stored_age_seconds',
      'From the receipt of the oldest event of a batch to its confirmed insert: how late rows become visible.',
      [0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600], lane)
  }
  const started = new Set<string>()
  return {
    metrics,
    ...byLane,
    ...byCode,
    ...histograms,
    startLane (lane) {
      // A lane that comes back goes on counting.
      if (started.has(lane)) return
      started.add(lane)
      for (const counter of Object.values(byLane)) counter.inc({ lane }, 0)
      for (const histogram of Object.values(histograms)) histogram.zero({ lane })
      for (const [code, { action }] of Object.entries(CLICKHOUSE_ERRORS)) {
        (action === 'refuse' ? byCode.refusedBatches : byCode.insertRetries).inc({ lane, code }, 0)
      }
    },
    deadLetters: metrics.counter('dead_letters_total', 'Rows and messages set aside.', { stage: ['writer'], reason: WRITER_REFUSALS })
  }
}

function addLaneGauges ({ gauge }: Metrics, lanes: () => Iterable<LaneState>): void {
  const pending = gauge('lane_pending_messages', 'Messages of the lane that are not settled.', ['lane'])
  const bytes = gauge('lane_pending_bytes', 'Their bytes: of those in hand, and for the others estimated by these.', ['lane'])
  const lag = gauge('lane_lag_seconds', 'Age of the oldest message in hand that is not settled.', ['lane'])
  const healthy = gauge('lane_healthy', '1 while the lane stores what comes, 0 while it waits or fails.', ['lane'])
  // Lanes come and go; the gauges are filled when the first of them is read.
  Object.assign(pending, {
    collect: () => {
      for (const each of [pending, bytes, lag, healthy]) each.reset()
      for (const state of lanes()) {
        pending.set({ lane: state.key }, state.pendingMessages)
        bytes.set({ lane: state.key }, state.pendingBytes)
        lag.set({ lane: state.key }, state.lagMs(Date.now()) / 1000)
        healthy.set({ lane: state.key }, state.isHealthy(Date.now()) && state.phase !== 'elsewhere' ? 1 : 0)
      }
    }
  })
}
