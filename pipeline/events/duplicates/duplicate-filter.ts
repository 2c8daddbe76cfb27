/** Finds events that are stored already, by `EventIdentity`; `buildFrames` leaves them out of the insert. */
import type { FingerprintKey } from '../../../schema/wire/frame-message.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { waitForReplicas } from '../../../platform/clickhouse/wait-for-replicas.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { PipelineMetrics } from '../../pipeline-metrics.ts'
import { partitionKey, type Partition } from '../../stream/find-partitions.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import type { PartitionMessage } from '../events-reader.ts'
import { areAllStored, confirmDuplicates, type DoubtfulInsert, type Duplicates, excludeOwnRows, type Remembered, type Suspicion } from './confirm-duplicates.ts'
import type { FingerprintMemory } from './fingerprint-memory.ts'
import { CLOCK_MARGIN_MS, loadFingerprints } from './load-fingerprints.ts'
import { createLookUpEvents, type LookUpEvents } from './look-up-events.ts'
import { type Coverage, recallBatch, type StoredRows, suspiciousBefore } from './recall-batch.ts'
import { gapsWithin, toPairs } from '../row-ranges.ts'
import { StoredUuids } from './stored-uuids.ts'
import { RemovalWatch } from './watch-removals.ts'

/** Knows which events of a partition are stored already. */
export interface DuplicateFilter {
  /**
   * Decides which rows of the messages must not be inserted: duplicates of stored events, and second ones within the
   * messages.
   *
   * @param options.lookUpAll  Ask ClickHouse about every row that is not remembered.
   * @param options.doneRows  Of the first message, stored or dead-lettered before.
   */
  decide: (
    messages: readonly PartitionMessage[], options: { lookUpAll: boolean, doneRows?: number }
  ) => Promise<BatchRange['deduplicated']>
  /**
   * The duplicates of a batch range without the rows of these inserts, of which it was unknown whether they were
   * stored.
   */
  excludeOwnRows: (
    messages: readonly PartitionMessage[], range: BatchRange, doubtful: readonly DoubtfulInsert[]
  ) => Promise<BatchRange['deduplicated']>
  /** Remembers the rows of a batch range that ClickHouse confirmed. */
  remember: (messages: readonly PartitionMessage[], range: BatchRange) => void
}

/** Opens the filters of the partitions of a process, and keeps their memory from one session to the next. */
export interface DuplicateFilters {
  /** Loads the stored events of the partition, unless this process remembers them. */
  open: (partition: Partition) => Promise<DuplicateFilter>
  /** Forgets a partition that another process may write, or may have written. */
  close: (partition: Partition) => void
}

export interface DuplicateFiltersDeps {
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; absent or empty: one node. */
  cluster?: string
  /** The deployment's secret for fingerprints; null while it cannot be read. */
  fingerprintKey: () => Promise<FingerprintKey | null>
  metrics: PipelineMetrics
  logger: Logger
}

/** Partitions opened within this time are loaded together, in milliseconds: those of a process at its start. */
const OPENED_TOGETHER_MS = 50

export function createDuplicateFilters (deps: DuplicateFiltersDeps): DuplicateFilters {
  const memories = new Map<string, FingerprintMemory>()
  /** Time of the last confirmed insert of each partition, by `performance.now()`. */
  const confirmedAt = new Map<string, number>()
  const { clickhouse, cluster = '' } = deps
  const catchUp = async (): Promise<void> => { await waitForReplicas({ clickhouse, cluster }) }
  const uuids = new StoredUuids(deps)
  const removals = new RemovalWatch(clickhouse, cluster)
  const lookUpEvents = createLookUpEvents(clickhouse, cluster === '' ? undefined : catchUp)
  /** A load that has not begun to read, and so will find the events of a partition opened now. */
  let next: Promise<FingerprintMemory> | null = null
  const load = async (): Promise<FingerprintMemory> => {
    await new Promise((resolve) => setTimeout(resolve, OPENED_TOGETHER_MS))
    next = null
    // Others have stored events of these partitions.
    uuids.reset()
    await catchUp()
    await removals.look()
    return await loadFingerprints(clickhouse, await deps.fingerprintKey())
  }
  return {
    async open (partition) {
      const key = partitionKey(partition)
      let memory = memories.get(key)
      if (memory === undefined) {
        next ??= load()
        // Whatever a former owner stored had come into the stream before this process claimed the partition.
        memory = (await next).fork(Date.now() + CLOCK_MARGIN_MS)
        confirmedAt.set(key, memory.loadedAt.monotonicMs)
      }
      memories.set(key, memory)
      const eventClass = partition.eventClass === 'live' ? 'historical' : 'live'
      const other = partitionKey({ ...partition, eventClass })
      return createDuplicateFilter({
        memory,
        isHistorical: partition.eventClass === 'historical',
        lookUpEvents,
        removals,
        onLookUp: (rows) => deps.metrics.confirmedRows.inc({ partition: key }, rows),
        // An event may come a second time in the other class. Of another process nobody knows what it stores.
        uuids,
        confirmedElsewhere: () => memories.has(other) ? confirmedAt.get(other) ?? -Infinity : Infinity,
        onConfirmed: () => confirmedAt.set(key, performance.now()),
        onForgotten: () => {
          uuids.reset()
          removals.notice()
          deps.logger.warn({ partition: key },
            'stored events are gone from ClickHouse (truncated or restored?); repeats of earlier events are looked up there')
        }
      })
    },
    close: (partition) => {
      memories.delete(partitionKey(partition))
      confirmedAt.delete(partitionKey(partition))
    }
  }
}

export interface DuplicateFilterDeps {
  memory: FingerprintMemory
  /** Whether its events may have come as live ones before, whenever their uuids were made. */
  isHistorical?: boolean
  lookUpEvents: LookUpEvents
  /** Without it nothing is removed by mutations. */
  removals?: Pick<RemovalWatch, 'mayLack'>
  /** Called with the number of rows looked up in ClickHouse. */
  onLookUp: (rows: number) => void
  /** The uuids of stored events; without them every old uuid is looked up. */
  uuids?: Pick<StoredUuids, 'knows' | 'findRows'>
  /** When the other class last stored events that could be ours, by `performance.now()`; Infinity: unknown. */
  confirmedElsewhere?: () => number
  /** Called when an insert of this partition was confirmed. */
  onConfirmed?: () => void
  /** Called when a sample shows that events are gone that are remembered as stored. */
  onForgotten?: () => void
}

/** Maximum messages of a batch, and remembered rows of each, that are looked up in case they are gone. */
const SAMPLE = { messages: 8, rows: 4 }

/**
 * Creates the filter of a partition.
 *
 * What the memory knows is decided in memory, new and duplicate alike: one lookup a row. ClickHouse is asked only where
 * the memory cannot know: about uuids older than what it covers, and about events whose check is unknown.
 * Remembered events may be gone: while the memory reaches back beyond the last mutation of the table (each deletion of
 * ours is one), the whole batch is decided by what ClickHouse holds. What leaves no mutation (TRUNCATE, a restored
 * backup) is found by a sample of remembered rows: when one is gone, this batch and what follows is decided so.
 */
export function createDuplicateFilter (deps: DuplicateFilterDeps): DuplicateFilter {
  const { memory, lookUpEvents, onLookUp, confirmedElsewhere = () => -Infinity } = deps
  return {
    async decide (messages, { lookUpAll, doneRows = 0 }) {
      const coverage = findCoverage()
      const storedRows = lookUpAll ? new Map() : await findStoredRows(messages, coverage)
      const { suspicions, duplicates, remembered } =
        recallBatch(memory, messages, { lookUpAll, storedRows, coverage, doneRows })
      const confirm = async (suspected: readonly Suspicion[]): Promise<Duplicates> =>
        await confirmDuplicates(messages, { suspicions: suspected, lookUpEvents, onLookUp, doneRows })
      const [mayLack, holds, confirmed] = await Promise.all([
        remembered.length > 0 && deps.removals?.mayLack(memory.completeSince),
        areStored(remembered), confirm(suspicions)
      ])
      const isTrusted = holds && mayLack !== true
      if (!holds && mayLack !== true) deps.onForgotten?.()
      const asked = isTrusted ? confirmed : await confirm(distrust(suspicions, duplicates))
      if (!isTrusted) duplicates.clear()
      for (const [message, rows] of asked) duplicates.set(message, [...duplicates.get(message) ?? [], ...rows])
      for (const message of messages) message.deduplicated ??= toPairs(duplicates.get(message) ?? [])
      return messages.map(toDeduplicated).filter(([, ranges]) => ranges.length > 0)
    },

    async excludeOwnRows (messages, { deduplicated }, doubtful) {
      if (deduplicated.length === 0 || doubtful.length === 0) return deduplicated
      return await excludeOwnRows(messages, deduplicated, { doubtful, lookUpEvents })
    },

    remember (messages, { deduplicated, rows: piece }) {
      deps.onConfirmed?.()
      const skipped = new Map(deduplicated)
      for (const message of messages) {
        const [from, to] = piece ?? [0, message.rows]
        for (const rows of gapsWithin(skipped.get(message.sequence) ?? [], from, to)) memory.addRows(message, rows)
      }
    }
  }

  /** An event of the other class is remembered only if it was stored before the memory was loaded. */
  function findCoverage (): Coverage {
    const { coveredSince, loadedAt } = memory
    if (confirmedElsewhere() <= loadedAt.monotonicMs) return { receivedSince: coveredSince, madeSince: coveredSince }
    const madeSince = deps.isHistorical === true ? Infinity : Math.max(coveredSince, loadedAt.epochMs + CLOCK_MARGIN_MS)
    return { receivedSince: coveredSince, madeSince }
  }

  /** Of messages that the memory does not cover, but the uuids that were read from ClickHouse do. */
  async function findStoredRows (messages: readonly PartitionMessage[], coverage: Coverage): Promise<StoredRows> {
    const found = new Map<PartitionMessage, ReadonlySet<number>>()
    const { uuids } = deps
    for (const message of messages) {
      if (uuids === undefined || message.rows === 0 || message.deduplicated !== undefined) continue
      if (suspiciousBefore(message, coverage) === -Infinity) continue
      const madeSince = Math.min(message.receivedAt, message.oldestUuidAt)
      if (!uuids.knows(madeSince, Math.max(memory.completeSince, confirmedElsewhere()))) continue
      const rows = await uuids.findRows(message)
      if (rows !== null) found.set(message, rows)
    }
    return found
  }

  async function areStored (remembered: readonly Remembered[]): Promise<boolean> {
    if (remembered.length === 0) return true
    const sample = spread(remembered, SAMPLE.messages)
      .map(([message, rows]): Remembered => [message, spread(rows, SAMPLE.rows)])
    onLookUp(sample.flatMap(([, rows]) => rows).length)
    return await areAllStored(sample, lookUpEvents)
  }
}

/** An evenly spaced sample from a random offset, of `most` at most. */
function spread<T> (all: readonly T[], most: number): T[] {
  const step = Math.max(1, all.length / most)
  const offset = Math.random() * step
  return all.filter((_, index) => Math.floor((index + 1 + offset) / step) > Math.floor((index + offset) / step))
}

/** Makes mere suspicions of what the memory decided. */
function distrust (suspicions: readonly Suspicion[], duplicates: ReadonlyMap<PartitionMessage, number[]>): Suspicion[] {
  const byMessage = new Map(suspicions.map((suspicion) => [suspicion.message, suspicion]))
  for (const [message, rows] of duplicates) {
    const { knownRows = [], madeBefore = -Infinity } = byMessage.get(message) ?? {}
    byMessage.set(message, { message, knownRows: [...knownRows, ...rows], madeBefore })
  }
  return [...byMessage.values()]
}

function toDeduplicated ({ sequence, deduplicated = [] }: PartitionMessage): BatchRange['deduplicated'][number] {
  return [sequence, [...deduplicated]]
}
