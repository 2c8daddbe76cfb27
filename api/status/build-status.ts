import { NOT_RUNNING, type StoresReading, type TierName, type TierReading } from './read-status.ts'
import type { Status } from './status-schema.ts'

/** One reading of all tiers and stores. */
export interface Reading {
  time: Date
  tiers: readonly TierReading[]
  stores: StoresReading
}

const PIPELINE = 'millrace_pipeline'

/** Figures of two readings: totals from the second, rates from both. Processes of a tier add up. */
function createFigures (before: Reading, now: Reading) {
  const of = (tier: TierName): TierReading[] => now.tiers.filter((each) => each.tier === tier)
  const having = (tier: TierName, name: string): TierReading[] =>
    of(tier).filter(({ metrics }) => metrics.names().has(name))
  const add = (figures: readonly number[]): number | null =>
    figures.length === 0 ? null : figures.reduce((sum, each) => sum + each)
  /** Values of a metric, one per process that has it. */
  const values = (tier: TierName, name: string, labels?: Record<string, string>): number[] =>
    having(tier, name).map(({ metrics }) => metrics.sum(name, labels)).filter((value) => !Number.isNaN(value))
  const rate = (tier: TierName, name: string): number | null =>
    add(having(tier, name).map((each) => rateOf(each, before, name)))
  return {
    of,
    values,
    rate,
    total: (tier: TierName, name: string, labels?: Record<string, string>) => add(values(tier, name, labels)),
    mean (tier: TierName, name: string, factor: number): number | null {
      const [count, sum] = [rate(tier, `${name}_count`), rate(tier, `${name}_sum`)]
      return count === null || count === 0 || sum === null ? null : sum / count * factor
    },
    by: (tier: TierName, name: string, label: string) => addUp(of(tier).map(({ metrics }) => metrics.by(name, label)))
  }
}

type Figures = ReturnType<typeof createFigures>

/** Computes the status from two readings. */
export function buildStatus (before: Reading, now: Reading): Status {
  const figures = createFigures(before, now)
  const { of, total, rate, mean, by } = figures
  const tiers = now.tiers.map(({ tier, url, health, metrics }) => ({
    tier,
    url,
    status: health?.status ?? 'down' as const,
    stuck: health?.stuck ?? [],
    eventLoopP99Ms: health === null ? null : metrics.sum(`millrace_${tier}_nodejs_eventloop_lag_p99_seconds`) * 1000,
    memoryBytes: health === null ? null : metrics.sum(`millrace_${tier}_process_resident_memory_bytes`)
  }))
  const unavailable = [
    ...tiers.filter(({ status }) => status === 'down').map(({ tier, url }) => `${tier}: ${url === NOT_RUNNING ? 'not running' : `no answer from ${url}`}`),
    // No watermark is known before the first event; whatever keeps it from being known is listed itself.
    ...Object.entries(now.stores).filter(([name, store]) => store === null && name !== 'watermark').map(([name]) => `${name}: no answer`)
  ]
  const stuck = [
    ...unavailable, ...tiers.flatMap(({ tier, stuck }) => stuck.map((part) => `${tier}: ${part}`)), ...findDifferences(before, now)
  ]
  const versions = new Set((['ingest', 'pipeline', 'api'] as const)
    .flatMap((tier) => [...by(tier, `millrace_${tier}_build_info`, 'version').keys()]))
  const clients = viewOfClients(tiers, {
    spoolBytes: total('ingest', 'millrace_ingest_spool_bytes') ?? 0,
    refusedPerSecond: of('ingest').reduce((sum, each) =>
      sum + rateOf(each, before, 'millrace_ingest_messages_total', { outcome: 'refused' }), 0)
  })
  const behind = findBehind(now)
  const books = readBooks(figures)
  const isDrift = books !== null && books.missing + books.extra > 0
  const isDown = clients.captures === 'refused' || clients.captures === 'no answer'
  return {
    status: isDown
      ? 'down'
      : stuck.length > 0 || clients.flags === 'no answer' || isDrift ? 'degraded' : behind.length > 0 ? 'behind' : 'ok',
    clients,
    stuck,
    behind,
    time: now.time.toISOString(),
    version: [...versions].join(', '),
    tiers,
    ingest: ofIngest(figures),
    streams: ofStreams(figures),
    pipeline: ofPipeline(figures),
    books,
    backup: {
      ...readBackup(figures),
      lastError: findText(of('pipeline'), 'backup', 'lastError'),
      lastWarning: findText(of('pipeline'), 'backup', 'lastWarning')
    },
    exports: {
      lagSeconds: extreme(Math.max, of('pipeline').flatMap(({ metrics }) => [...metrics.by(`${PIPELINE}_export_lag_seconds`, 'export').values()]))
    },
    api: {
      requestsPerSecond: rate('api', 'millrace_api_request_duration_seconds_count'),
      flagEvaluationsPerSecond: rate('api', 'millrace_api_flag_evaluations_total'),
      requestMs: mean('api', 'millrace_api_request_duration_seconds', 1000)
    },
    stores: now.stores,
    powerCuts: findText(now.tiers, 'nats version', 'withdrawn')
  }
}

function ofIngest ({ rate, total, mean, by }: Figures): Status['ingest'] {
  return {
    acceptedPerSecond: rate('ingest', 'millrace_ingest_events_accepted_total'),
    droppedPerSecond: rate('ingest', 'millrace_ingest_events_dropped_total'),
    bytesPerSecond: rate('ingest', 'millrace_ingest_body_bytes_total'),
    accepted: total('ingest', 'millrace_ingest_events_accepted_total'),
    dropped: Object.fromEntries([...by('ingest', 'millrace_ingest_events_dropped_total', 'reason')].filter(([, count]) => count > 0)),
    refusedRequests: Object.fromEntries([...by('ingest', 'millrace_ingest_requests_total', 'status')]
      .filter(([answer, count]) => answer.startsWith('4') && count > 0)),
    publishMs: mean('ingest', 'millrace_ingest_publish_seconds', 1000),
    spoolBytes: total('ingest', 'millrace_ingest_spool_bytes'),
    refusedMessages: total('ingest', 'millrace_ingest_messages_total', { outcome: 'refused' })
  }
}

function ofStreams ({ of }: Figures): Status['streams'] {
  // Every pipeline process sees the same streams.
  const watcher = of('pipeline').find(({ health }) => health !== null)
  const byStream = (name: string): ReadonlyMap<string, number> =>
    watcher?.metrics.by(`${PIPELINE}_stream_${name}`, 'stream') ?? new Map<string, number>()
  const [bytes, maxBytes, oldest] = [byStream('bytes'), byStream('max_bytes'), byStream('oldest_message_seconds')]
  return Object.fromEntries([...byStream('messages')].map(([stream, messages]) => [stream, {
    messages,
    bytes: bytes.get(stream) ?? 0,
    maxBytes: maxBytes.get(stream) ?? 0,
    oldestSeconds: oldest.get(stream) ?? 0
  }]))
}

function ofPipeline ({ rate, total, mean, by, values }: Figures): Status['pipeline'] {
  return {
    storedPerSecond: rate('pipeline', `${PIPELINE}_rows_stored_total`),
    stored: total('pipeline', `${PIPELINE}_rows_stored_total`),
    deduplicated: total('pipeline', `${PIPELINE}_rows_deduplicated_total`),
    insertMs: mean('pipeline', `${PIPELINE}_insert_seconds`, 1000),
    rowsPerInsert: mean('pipeline', `${PIPELINE}_batch_rows`, 1),
    partitions: Object.fromEntries([...by('pipeline', `${PIPELINE}_partition_pending_messages`, 'partition')].map(([partition, pendingMessages]) => [partition, {
      pendingMessages,
      pendingBytes: total('pipeline', `${PIPELINE}_partition_pending_bytes`, { partition }) ?? 0,
      lagSeconds: total('pipeline', `${PIPELINE}_partition_lag_seconds`, { partition }) ?? 0,
      healthy: (total('pipeline', `${PIPELINE}_partition_healthy`, { partition }) ?? 0) > 0
    }])),
    deadLetters: extreme(Math.max, values('pipeline', `${PIPELINE}_dead_letters`)),
    deadLetterFill: extreme(Math.max, values('pipeline', `${PIPELINE}_dead_letters_fill_ratio`)),
    definitionsAgeSeconds: extreme(Math.min, values('pipeline', `${PIPELINE}_definitions_age_seconds`)),
    targetsFailing: extreme(Math.max, values('pipeline', `${PIPELINE}_targets_failing`)),
    notificationsWaiting: extreme(Math.max, values('pipeline', `${PIPELINE}_notifications_waiting`))
  }
}

/** One process compares; the others report no drift and no age. */
function readBooks ({ values }: Figures): Status['books'] {
  const drift = (kind: string): number | null => extreme(Math.max, values('pipeline', 'millrace_ledger_drift_events', { kind }))
  const ageSeconds = extreme(Math.max, values('pipeline', 'millrace_ledger_check_age_seconds'))
  const [missing, extra] = [drift('missing'), drift('extra')]
  return missing === null || extra === null || ageSeconds === null ? null : { missing, extra, ageSeconds }
}

function readBackup ({ values }: Figures): Omit<Status['backup'], 'lastError' | 'lastWarning'> {
  const figure = (name: string): number | null => extreme(Math.max, values('pipeline', `${PIPELINE}_backup_${name}`))
  // Its size is 0 until a backup is complete.
  const has = (figure('bytes') ?? 0) > 0
  return {
    ageSeconds: has ? figure('age_seconds') : null,
    durationSeconds: has ? figure('duration_seconds') : null,
    intervalSeconds: figure('interval_seconds'),
    failed: figure('failed') === 1
  }
}

/** The first text that a process reports for this detail: texts are in health reports only, not in metrics. */
function findText (processes: readonly TierReading[], part: string, detail: string): string | null {
  const texts = processes.flatMap(({ health }) => health?.parts ?? [])
    .filter(({ name }) => name === part).map((part) => part[detail])
  return texts.find((text) => typeof text === 'string') ?? null
}

/** Processes follow a change within a second of each other: those that differ in both readings do not. */
function findDifferences (before: Reading, now: Reading): string[] {
  return (['schemas', 'rules'] as const).filter((kind) => [before, now].every((reading) => {
    const figures = knowing(reading, kind).map(({ metrics }) => metrics.sum(`millrace_ingest_${kind}_fingerprint`))
    return new Set(figures.filter((figure) => !Number.isNaN(figure))).size > 1
  })).map((kind) => {
    const processes = knowing(now, kind).map(({ url, metrics }) =>
      `${url} has ${metrics.sum(`millrace_ingest_${kind}_enforced`)}, read ${Math.round(metrics.sum('millrace_ingest_keys_age_seconds'))} s ago`)
    return `ingest: ${kind} (differ between processes: ${processes.join('; ')})`
  })
}

/** Ingest processes that say what they enforce; those of earlier versions do not. */
function knowing ({ tiers }: Reading, kind: 'schemas' | 'rules'): TierReading[] {
  return tiers.filter(({ tier, metrics }) => tier === 'ingest' && metrics.names().has(`millrace_ingest_${kind}_fingerprint`))
}

/** Several processes of a tier see the same streams: the oldest work counts. */
function findBehind ({ tiers }: Reading): Status['behind'] {
  const lags = new Map<string, number>()
  for (const { tier, health } of tiers) {
    // Processes of earlier versions do not report it.
    for (const { name, lagMs } of health?.behind ?? []) {
      const part = `${tier}: ${name}`
      lags.set(part, Math.max(lags.get(part) ?? 0, lagMs / 1000))
    }
  }
  const behind = [...lags].map(([part, lagSeconds]) => ({ part, lagSeconds }))
  return behind.sort((one, other) => other.lagSeconds - one.lagSeconds)
}

function viewOfClients (
  tiers: Status['tiers'], { spoolBytes, refusedPerSecond }: { spoolBytes: number, refusedPerSecond: number }
): Status['clients'] {
  const answers = (tier: TierName): boolean => tiers.some((each) => each.tier === tier && each.status !== 'down')
  return {
    captures: !answers('ingest') ? 'no answer' : refusedPerSecond > 0 ? 'refused' : spoolBytes > 0 ? 'spooled' : 'answered',
    // Requests for flags pass through ingest.
    flags: answers('ingest') && answers('api') ? 'answered' : 'no answer'
  }
}

function extreme (choose: (...values: number[]) => number, values: readonly number[]): number | null {
  return values.length === 0 ? null : choose(...values)
}

/** A counter that decreased belongs to a restarted process: its whole value is new. */
function rateOf (now: TierReading, before: Reading, name: string, labels?: Record<string, string>): number {
  const earlier = before.tiers.find(({ tier, url }) => tier === now.tier && url === now.url)
  if (earlier === undefined || earlier.health === null || now.health === null) return 0
  const seconds = (now.readAt - earlier.readAt) / 1000
  const [from, to] = [earlier.metrics.sum(name, labels), now.metrics.sum(name, labels)]
  return seconds <= 0 ? 0 : (to >= from ? to - from : to) / seconds
}

function addUp (maps: readonly Map<string, number>[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const map of maps) for (const [key, value] of map) sums.set(key, (sums.get(key) ?? 0) + value)
  return sums
}
