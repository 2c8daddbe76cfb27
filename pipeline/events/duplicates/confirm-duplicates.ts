import { FINGERPRINT_BYTES, UNTIMED_UUID_AT } from '../../../schema/wire/frame-message.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import type { PartitionMessage } from '../events-reader.ts'
import { fingerprintView } from './fingerprint-memory.ts'
import { type EventIdentity, identityKey, type LookUpEvents, readIdentities, uuidTime } from './look-up-events.ts'
import { hasRow, toPairs } from '../row-ranges.ts'

/** Why a message is looked into. */
export interface Suspicion {
  message: PartitionMessage
  /** Rows that resemble a stored event, or one of the batch. */
  knownRows: readonly number[]
  /** Every row with a uuid made before this is suspicious as well, epoch ms; Infinity for all rows. */
  madeBefore: number
}

/** A message of a batch with its remembered rows, at least one. */
export type Remembered = readonly [message: PartitionMessage, rows: readonly number[]]

/** Rows that are duplicates, by message, ascending. */
export type Duplicates = Map<PartitionMessage, number[]>

/**
 * Tells for suspicious rows of one batch range whether they are duplicates of stored events, or of events earlier in
 * the batch range. Equal fingerprints, or an old uuid, are no proof; identities are compared.
 *
 * @param range       All messages of the batch range in order: the first copy of a pair may be in an unsuspicious one.
 * @param options.onLookUp  Called with the number of looked-up rows.
 * @param options.doneRows  Of the first message, stored or dead-lettered before.
 */
export async function confirmDuplicates (range: readonly PartitionMessage[], options: {
  suspicions: readonly Suspicion[]
  lookUpEvents: LookUpEvents
  onLookUp: (rows: number) => void
  doneRows: number
}): Promise<Duplicates> {
  const suspects = await readSuspects(range, options)
  if (suspects.length === 0) return new Map()
  options.onLookUp(suspects.length)
  const stored = await options.lookUpEvents(suspects.map(({ identity }) => identity))

  const duplicates: Duplicates = new Map()
  /** Days of the events that stay, by identity. */
  const seen = new Map<string, number[]>()
  suspects.forEach(({ message, row, identity }, index) => {
    const key = identityKey(identity)
    const days = seen.get(key) ?? []
    if (stored[index] || days.some((day) => Math.abs(day - identity.day) <= 1)) {
      const rows = duplicates.get(message)
      if (rows === undefined) duplicates.set(message, [row])
      else rows.push(row)
    } else {
      days.push(identity.day)
      seen.set(key, days)
    }
  })
  return duplicates
}

interface Suspect {
  message: PartitionMessage
  row: number
  identity: EventIdentity
}

/** All rows in question, in order: the suspicious ones, and those of the batch range with the same uuid as one. */
async function readSuspects (
  range: readonly PartitionMessage[], { suspicions, doneRows }: { suspicions: readonly Suspicion[], doneRows: number }
): Promise<Suspect[]> {
  const byMessage = new Map(suspicions.map((suspicion) => [suspicion.message, suspicion]))
  const uuids = new Set<number>()
  for (const { message, knownRows } of suspicions) {
    const view = fingerprintView(message.payload)
    for (const row of knownRows) uuids.add(view.getUint32(row * FINGERPRINT_BYTES, true))
  }

  const suspects: Suspect[] = []
  for (const message of range) {
    const from = message === range[0] ? doneRows : 0
    const rows = new Set<number>()
    if (uuids.size > 0) {
      const view = fingerprintView(message.payload)
      for (let row = from; row < message.rows; row++) {
        if (uuids.has(view.getUint32(row * FINGERPRINT_BYTES, true))) rows.add(row)
      }
    }
    const madeBefore = byMessage.get(message)?.madeBefore ?? -Infinity
    if (rows.size === 0 && madeBefore === -Infinity) continue
    const { live, historical } = UNTIMED_UUID_AT
    const untimedAt = message.oldestUuidAt > historical ? live : historical
    const identities = await readIdentities(message)
    identities?.forEach((identity, row) => {
      if (row < from) return
      if (rows.has(row) || madeBefore === Infinity || uuidTime(identity, untimedAt) < madeBefore) {
        suspects.push({ message, row, identity })
      }
    })
  }
  return suspects
}

/** Whether the events of these rows are stored. A message that cannot be read is dead-lettered in its turn. */
export async function areAllStored (sample: readonly Remembered[], lookUpEvents: LookUpEvents): Promise<boolean> {
  const read = sample.map(async ([message, rows]) => await readIdentities(message, rows) ?? [])
  return (await lookUpEvents((await Promise.all(read)).flat())).every(Boolean)
}

/** A batch range that is not repeated, although its insert may have stored all rows, or some. */
export interface DoubtfulInsert {
  range: BatchRange
  /** Its rows in `events` bear it. */
  token: string
}

/**
 * The duplicates of a batch range without those that a doubtful insert stored: these are the events themselves. What
 * that insert left out as a duplicate is one.
 */
export async function excludeOwnRows (
  messages: readonly PartitionMessage[], deduplicated: BatchRange['deduplicated'],
  { doubtful, lookUpEvents }: { doubtful: readonly DoubtfulInsert[], lookUpEvents: LookUpEvents }
): Promise<BatchRange['deduplicated']> {
  let rows = await readRows(messages, new Map(deduplicated))
  for (const { range, token } of doubtful) {
    const leftOut = new Map(range.deduplicated)
    const possible = rows.filter((suspect) =>
      isWithin(range, suspect) && !hasRow(leftOut.get(suspect.message.sequence) ?? [], suspect.row))
    const stored = await lookUpEvents(possible.map(({ identity }) => identity), { insertToken: token })
    const own = new Set(possible.filter((_, index) => stored[index]))
    rows = rows.filter((row) => !own.has(row))
  }
  const left = Map.groupBy(rows, ({ message }) => message.sequence)
  return [...left].map(([sequence, own]) => [sequence, toPairs(own.map(({ row }) => row))])
}

/** A message that cannot be read has no rows: it is dead-lettered. */
async function readRows (
  messages: readonly PartitionMessage[], deduplicated: ReadonlyMap<number, readonly number[]>
): Promise<Suspect[]> {
  const found: Suspect[] = []
  for (const message of messages) {
    const ranges = deduplicated.get(message.sequence)
    if (ranges === undefined) continue
    const identities = await readIdentities(message) ?? []
    identities.forEach((identity, row) => {
      if (hasRow(ranges, row)) found.push({ message, row, identity })
    })
  }
  return found
}

function isWithin (range: BatchRange, { message: { sequence }, row }: Suspect): boolean {
  const { first, last, rows: [from, to] = [0, Infinity] } = range
  return sequence >= first && sequence <= last && row >= from && row < to
}
