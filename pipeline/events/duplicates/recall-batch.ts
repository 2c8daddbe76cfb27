/** What the memory of a partition says about the rows of a batch, before ClickHouse is asked about anything. */
import { FINGERPRINT_BYTES } from '../../../schema/wire/frame-message.ts'
import type { PartitionMessage } from '../events-reader.ts'
import type { Remembered, Suspicion } from './confirm-duplicates.ts'
import {
  type FingerprintMemory, FingerprintTable, fingerprintView, NOT_REMEMBERED, REMEMBERED, slotsFor
} from './fingerprint-memory.ts'
import { gapsWithin } from '../row-ranges.ts'

/** What the memory says about a batch. */
export interface Recalled {
  suspicions: Suspicion[]
  /** Rows that are decided to be duplicates, by message. */
  duplicates: Map<PartitionMessage, number[]>
  remembered: Remembered[]
}

/** Rows whose uuids may be stored, of messages that the memory does not cover; all other rows are new. */
export type StoredRows = ReadonlyMap<PartitionMessage, ReadonlySet<number>>

/**
 * Asks the memory about every row of a batch, in their order.
 *
 * @param options.lookUpAll  ClickHouse has to be asked about every row that is not remembered.
 * @param options.coverage  Of the memory.
 * @param options.doneRows  Of the first message: no row is a copy of one that was dead-lettered.
 */
export function recallBatch (
  memory: FingerprintMemory, messages: readonly PartitionMessage[],
  { lookUpAll, storedRows, coverage, doneRows }: {
    lookUpAll: boolean, storedRows: StoredRows, coverage: Coverage, doneRows: number
  }
): Recalled {
  const suspicions: Suspicion[] = []
  const duplicates = new Map<PartitionMessage, number[]>()
  const remembered: Remembered[] = []
  const total = messages.reduce((sum, message) => sum + message.rows, 0)
  const batch: BatchRows = { kept: new FingerprintTable(slotsFor(total)), asked: new FingerprintTable() }
  for (const message of messages) {
    if (message.rows === 0) continue
    const isUnderstood = memory.understands(message.keyId)
    const from = message === messages[0] ? doneRows : 0
    if (message.deduplicated !== undefined) {
      // Decided before, in a larger batch that was refused: the decision stands.
      addRows(batch.kept, message, { from, isUnderstood })
      continue
    }
    // Whether they stay, only their identities tell; so what follows with their uuids is left to those as well.
    if (!isUnderstood) addRows(batch.kept, message, { from, isUnderstood })
    const mayBeStored = lookUpAll ? undefined : storedRows.get(message)
    const madeBefore = !isUnderstood || lookUpAll
      ? Infinity
      : mayBeStored !== undefined ? -Infinity : suspiciousBefore(message, coverage)
    const { rows, recalled, uncertain } = isUnderstood
      ? recallRows(memory, batch, { message, from, mayBeStored, isAsked: madeBefore !== -Infinity })
      : { rows: [], recalled: [], uncertain: Array.from({ length: message.rows - from }, (_, index) => from + index) }
    if (rows.length > 0) duplicates.set(message, rows)
    if (recalled.length > 0) remembered.push([message, recalled])
    if (uncertain.length > 0 || madeBefore !== -Infinity) suspicions.push({ message, knownRows: uncertain, madeBefore })
  }
  return { suspicions, duplicates, remembered }
}

/** What a memory covers, epoch milliseconds. */
export interface Coverage {
  /** Whatever came into the stream of the partition since then. */
  receivedSince: number
  /** Whatever has a uuid that was made since then. */
  madeSince: number
}

/**
 * Rows of the message with a uuid made before this, epoch ms, may be stored although they are not remembered: Infinity
 * for all rows, because the message came long ago, perhaps a second time, or is a dead letter that is replayed.
 */
export function suspiciousBefore (
  { receivedAt, oldestUuidAt }: Pick<PartitionMessage, 'receivedAt' | 'oldestUuidAt'>, { receivedSince, madeSince }: Coverage
): number {
  if (receivedAt < receivedSince || oldestUuidAt === -Infinity) return Infinity
  return oldestUuidAt < madeSince ? madeSince : -Infinity
}

/** Rows of a batch, before they are stored and remembered. */
interface BatchRows {
  /** They will be inserted: what equals one of them is a duplicate. */
  kept: FingerprintTable
  /** ClickHouse is asked whether they are stored: what equals one of them depends on the answer. */
  asked: FingerprintTable
}

/** Looks the rows of one message up, and adds those that are no duplicates to the batch. */
function recallRows (
  memory: FingerprintMemory, batch: BatchRows,
  { message, from, isAsked, mayBeStored }: {
    message: PartitionMessage, from: number, isAsked: boolean, mayBeStored: ReadonlySet<number> | undefined
  }
): { rows: number[], recalled: number[], uncertain: number[] } {
  const rows: number[] = []
  const recalled: number[] = []
  const uncertain: number[] = []
  const view = fingerprintView(message.payload)
  for (let row = from; row < message.rows; row++) {
    const at = row * FINGERPRINT_BYTES
    const uuidHash = view.getUint32(at, true)
    const low = view.getUint32(at + 4, true)
    const high = view.getUint32(at + 8, true)
    if (batch.kept.has(uuidHash, low, high)) {
      rows.push(row)
      continue
    }
    const state = memory.recall(uuidHash, low, high)
    if (state === REMEMBERED) {
      rows.push(row)
      recalled.push(row)
      continue
    }
    const isUncertain = state !== NOT_REMEMBERED || mayBeStored?.has(row) === true ||
      batch.kept.has(uuidHash, 0, 0) || batch.asked.has(uuidHash, low, high)
    if (isUncertain) uncertain.push(row)
    if (isUncertain || isAsked) batch.asked.add(uuidHash, low, high)
    else batch.kept.add(uuidHash, low, high)
  }
  return { rows, recalled, uncertain }
}

/** Adds the rows that are no duplicates as far as is known, by uuid alone when checks cannot be compared. */
function addRows (
  table: FingerprintTable, message: PartitionMessage, { from, isUnderstood }: { from: number, isUnderstood: boolean }
): void {
  const view = fingerprintView(message.payload)
  for (const [begin, end] of gapsWithin(message.deduplicated ?? [], from, message.rows)) {
    for (let row = begin; row < end; row++) {
      const at = row * FINGERPRINT_BYTES
      const uuidHash = view.getUint32(at, true)
      if (isUnderstood) table.add(uuidHash, view.getUint32(at + 4, true), view.getUint32(at + 8, true))
      else table.add(uuidHash, 0, 0)
    }
  }
}
