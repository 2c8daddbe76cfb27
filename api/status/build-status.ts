import { NOT_RUNNING, type StoresReading, type TierName, type TierReading } from './read-status.ts'

/**
 * What clients see. Captures are `answered`; `spooled`: answered, and stored on the disk of ingest; `refused`: some got
 * 503 between the two readings; or they get `no answer` from any process.
 */
export interface ClientView {
  captures: 'answered' | 'spooled' | 'refused' | 'no answer'
  flags: 'answered' | 'no answer'
}

/**
 * What `millrace status --json` writes. Rates are per second. A figure is null when it is unknown: the process that has
 * it does not answer, or does not know it itself. A mean is null without a sample.
 */
export interface Status {
  /**
   * `down`: captures are refused or get no answer. `degraded`: clients are served, but something is stuck or
   * unavailable, or the books do not balance. `behind`: everything works, but something has old work.
   */
  status: 'ok' | 'behind' | 'degraded' | 'down'
  clients: ClientView
  /** What is stuck, as `<tier>: <part>`, in the order in which events flow. */
  stuck: string[]
  /** What has old work, as `<tier>: <part>`, with its age; the oldest first. */
  behind: { part: string, lagSeconds: number }[]
  time: string
  /** Versions of all processes; several during an upgrade. */
  version: string
  /** `url` is empty of a stack that does not run. */
  tiers: {
    tier: TierName, url: string, status: 'ok' | 'behind' | 'degraded' | 'down', stuck: string[]
    eventLoopP99Ms: number | null, memoryBytes: number | null
  }[]
  ingest: {
    acceptedPerSecond: number | null, droppedPerSecond: number | null, bytesPerSecond: number | null
    accepted: number | null, dropped: Record<string, number>, publishMs: number | null
    /** Capture requests since start that were refused for what the client sent, by status: `401`, `413`, `429` ... */
    refusedRequests: Record<string, number>
    spoolBytes: number | null, refusedMessages: number | null
  }
  /** Empty while the pipeline does not know. */
  streams: Record<string, { messages: number, bytes: number, maxBytes: number, oldestSeconds: number }>
  pipeline: {
    storedPerSecond: number | null, stored: number | null, deduplicated: number | null
    insertMs: number | null, rowsPerInsert: number | null
    partitions: Record<string, { pendingMessages: number, pendingBytes: number, lagSeconds: number, healthy: boolean }>
    deadLetters: number | null, deadLetterFill: number | null, definitionsAgeSeconds: number | null
  }
  /**
   * By how many events of the last three hours `events` differs from the books, and how long ago that was found; null
   * when no process of the pipeline compares them.
   */
  books: { missing: number, extra: number, ageSeconds: number } | null
  /**
   * Of the last complete one; null without one or a pipeline that knows. An interval of 0: none are scheduled.
   * `lastError`: why there is none that is new enough; null while there is. `lastWarning`: what is to be done although
   * the last one was made; null: nothing.
   */
  backup: {
    ageSeconds: number | null, durationSeconds: number | null, intervalSeconds: number | null
    failed: boolean, lastError: string | null, lastWarning: string | null
  }
  api: { requestsPerSecond: number | null, flagEvaluationsPerSecond: number | null, requestMs: number | null }
  stores: StoresReading
  /** Why the promise about power cuts does not hold, as processes say it; null while none says so. */
  powerCuts: string | null
}

/** One reading of all tiers and stores. */
export interface Reading {
  time: Date
  tiers: readonly TierReading[]
  stores: StoresReading
}

/** Computes the status from two readings: totals from the second, rates from both. Processes of a tier add up. */
export function buildStatus (before: Reading, now: Reading): Status {
  const of = (reading: Reading, tier: TierName): TierReading[] => reading.tiers.filter((each) => each.tier === tier)
  /** Values of a metric, one per process that has it. */
  const values = (tier: TierName, name: string, labels?: Record<string, string>): number[] =>
    of(now, tier).filter(({ metrics }) => metrics.names().has(name)).map(({ metrics }) => metrics.sum(name, labels))
      .filter((value) => !Number.isNaN(value))
  const total = (tier: TierName, name: string, labels?: Record<string, string>): number | null =>
    values(tier, name, labels).reduce<number | null>((sum, value) => (sum ?? 0) + value, null)
  const rate = (tier: TierName, name: string): number | null =>
    of(now, tier).filter(({ metrics }) => metrics.names().has(name))
      .reduce<number | null>((sum, each) => (sum ?? 0) + rateOf(each, before, name), null)
  const mean = (tier: TierName, name: string, factor: number): number | null => {
    const [count, sum] = [rate(tier, `${name}_count`), rate(tier, `${name}_sum`)]
    return count === null || count === 0 || sum === null ? null : sum / count * factor
  }
  const by = (tier: TierName, name: string, label: string): Map<string, number> =>
    addUp(of(now, tier).map(({ metrics }) => metrics.by(name, label)))

  /** One process compares; the others report no drift and no age. */
  const readBooks = (): Status['books'] => {
    const drift = (kind: string): number | null => extreme(Math.max, values('pipeline', 'millrace_ledger_drift_events', { kind }))
    const ageSeconds = extreme(Math.max, values('pipeline', 'millrace_ledger_check_age_seconds'))
    const [missing, extra] = [drift('missing'), drift('extra')]
    return missing === null || extra === null || ageSeconds === null ? null : { missing, extra, ageSeconds }
  }

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
    ...Object.entries(now.stores).filter(([, store]) => store === null).map(([name]) => `${name}: no answer`)
  ]
  const stuck = [
    ...unavailable, ...tiers.flatMap(({ tier, stuck }) => stuck.map((part) => `${tier}: ${part}`)), ...findDifferences(before, now)
  ]
  const versions = new Set((['ingest', 'pipeline', 'api'] as const)
    .flatMap((tier) => [...by(tier, `millrace_${tier}_build_info`, 'version').keys()]))
  const pipeline = 'millrace_pipeline'
  // Every pipeline process sees the same streams.
  const watcher = of(now, 'pipeline').find(({ health }) => health !== null)
  const ofStreams = (name: string): ReadonlyMap<string, number> =>
    watcher?.metrics.by(`${pipeline}_stream_${name}`, 'stream') ?? new Map<string, number>()
  const [bytes, maxBytes, oldest] = [ofStreams('bytes'), ofStreams('max_bytes'), ofStreams('oldest_message_seconds')]
  const clients = viewOfClients(tiers, {
    spoolBytes: total('ingest', 'millrace_ingest_spool_bytes') ?? 0,
    refusedPerSecond: of(now, 'ingest').reduce((sum, each) =>
      sum + rateOf(each, before, 'millrace_ingest_messages_total', { outcome: 'refused' }), 0)
  })
  const behind = findBehind(now)
  const books = readBooks()
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
    ingest: {
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
    },
    streams: Object.fromEntries([...ofStreams('messages')].map(([stream, messages]) => [stream, {
      messages,
      bytes: bytes.get(stream) ?? 0,
      maxBytes: maxBytes.get(stream) ?? 0,
      oldestSeconds: oldest.get(stream) ?? 0
    }])),
    pipeline: {
      storedPerSecond: rate('pipeline', `${pipeline}_rows_stored_total`),
      stored: total('pipeline', `${pipeline}_rows_stored_total`),
      deduplicated: total('pipeline', `${pipeline}_rows_deduplicated_total`),
      insertMs: mean('pipeline', `${pipeline}_insert_seconds`, 1000),
      rowsPerInsert: mean('pipeline', `${pipeline}_batch_rows`, 1),
      partitions: Object.fromEntries([...by('pipeline', `${pipeline}_partition_pending_messages`, 'partition')].map(([partition, pendingMessages]) => [partition, {
        pendingMessages,
        pendingBytes: total('pipeline', `${pipeline}_partition_pending_bytes`, { partition }) ?? 0,
        lagSeconds: total('pipeline', `${pipeline}_partition_lag_seconds`, { partition }) ?? 0,
        healthy: (total('pipeline', `${pipeline}_partition_healthy`, { partition }) ?? 0) > 0
      }])),
      deadLetters: extreme(Math.max, values('pipeline', `${pipeline}_dead_letters`)),
      deadLetterFill: extreme(Math.max, values('pipeline', `${pipeline}_dead_letters_fill_ratio`)),
      definitionsAgeSeconds: extreme(Math.min, values('pipeline', `${pipeline}_definitions_age_seconds`))
    },
    books,
    backup: {
      ...readBackup((name) => extreme(Math.max, values('pipeline', `${pipeline}_backup_${name}`))),
      lastError: findText(of(now, 'pipeline'), 'backup', 'lastError'),
      lastWarning: findText(of(now, 'pipeline'), 'backup', 'lastWarning')
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

function readBackup (figure: (name: string) => number | null): Omit<Status['backup'], 'lastError' | 'lastWarning'> {
  // Its size is 0 until a backup is complete.
  const has = (figure('bytes') ?? 0) > 0
  return {
    ageSeconds: has ? figure('age_seconds') : null,
    durationSeconds: has ? figure('duration_seconds') : null,
    intervalSeconds: figure('interval_seconds'),
    failed: figure('failed') === 1
  }
}

/** What the first process says that says something: texts are only in their health. */
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
): ClientView {
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
