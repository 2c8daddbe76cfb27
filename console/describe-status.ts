/** What the status of an installation says, for the health screen and `millrace status`. */
import type { Status } from './api-types.ts'
import { formatBytes, formatCount, formatCounted, formatMs, formatRate, formatSeconds, showText, UNKNOWN } from '../engines/figures.ts'

/** How a stage is: `waiting` has work that is old, `stopped` cannot work. */
export type StageState = 'ok' | 'idle' | 'waiting' | 'stopped' | 'unknown'

/** One stage in the life of an event. */
export interface Stage {
  name: string
  state: StageState
  /** The figure that tells most: what passes, or what waits. */
  headline: string
  details: { label: string, value: string }[]
}

/** Work older than this is shown as waiting, in seconds: events are stored half a second after they arrive. */
const OLD_SECONDS = 10

/** The stages of an event in order: ingest, spool, stream, pipeline, ClickHouse; then dead letters, and the API. */
export function describeStages (status: Status): Stage[] {
  const { ingest, pipeline, streams, stores, api } = status
  const events = streams.EVENTS
  const partitions = Object.values(pipeline.partitions)
  // A pipeline that does not answer names none: then nobody knows what waits.
  const isKnown = partitions.length > 0
  const lag = Math.max(0, ...partitions.map(({ lagSeconds }) => lagSeconds))
  const pending = partitions.reduce((sum, { pendingMessages }) => sum + pendingMessages, 0)
  return [
    {
      name: 'Ingest',
      state: stateOf(status, 'ingest', isFlowing(ingest.acceptedPerSecond)),
      headline: `${formatRate(ingest.acceptedPerSecond)} events/s`,
      details: [
        { label: 'accepted since start', value: formatCount(ingest.accepted) },
        { label: 'dropped', value: `${formatRate(ingest.droppedPerSecond)}/s` },
        { label: 'requests refused', value: formatCount(Object.values(ingest.refusedRequests).reduce((sum, count) => sum + count, 0)) },
        { label: 'bytes', value: `${formatBytes(ingest.bytesPerSecond)}/s` },
        { label: 'until stored in the stream', value: formatMs(ingest.publishMs) }
      ]
    },
    {
      name: 'Spool',
      state: ingest.spoolBytes === null ? 'unknown' : ingest.spoolBytes > 0 ? 'waiting' : 'idle',
      headline: `${formatBytes(ingest.spoolBytes)} on disk`,
      details: [{ label: 'messages refused', value: formatCount(ingest.refusedMessages) }]
    },
    {
      name: 'Stream',
      state: events === undefined ? 'unknown' : events.oldestSeconds > OLD_SECONDS ? 'waiting' : events.messages === 0 ? 'idle' : 'ok',
      headline: events === undefined ? UNKNOWN : formatCounted(events.messages, 'message'),
      details: events === undefined
        ? []
        : [
            { label: 'oldest', value: formatSeconds(events.oldestSeconds) },
            { label: 'full', value: `${formatBytes(events.bytes)} of ${formatBytes(events.maxBytes)}` }
          ]
    },
    {
      name: 'Pipeline',
      state: stateOf(status, 'pipeline', isFlowing(pipeline.storedPerSecond), lag > OLD_SECONDS),
      headline: `${formatRate(pipeline.storedPerSecond)} rows/s`,
      details: [
        { label: 'partitions', value: isKnown ? `${partitions.filter(({ healthy }) => healthy).length} of ${partitions.length} run` : UNKNOWN },
        { label: 'waiting', value: isKnown ? `${formatCounted(pending, 'message')}, ${formatSeconds(lag)}` : UNKNOWN },
        { label: 'insert', value: formatMs(pipeline.insertMs) },
        { label: 'deduplicated', value: formatCount(pipeline.deduplicated) },
        { label: 'rows per insert', value: formatCount(pipeline.rowsPerInsert) }
      ]
    },
    {
      name: 'ClickHouse',
      state: stores.clickhouse === null ? 'stopped' : 'ok',
      headline: stores.clickhouse === null ? 'no answer' : formatCounted(stores.clickhouse.events, 'event'),
      details: stores.clickhouse === null
        ? []
        : [
            { label: 'size', value: formatBytes(stores.clickhouse.bytes) },
            { label: 'free', value: formatBytes(stores.clickhouse.freeBytes) },
            { label: 'version', value: stores.clickhouse.version }
          ]
    },
    {
      name: 'Dead letters',
      state: pipeline.deadLetterFill === null ? 'unknown' : pipeline.deadLetterFill >= 0.8 || (pipeline.deadLetters ?? 0) > 0 ? 'waiting' : 'idle',
      headline: pipeline.deadLetters === null ? UNKNOWN : formatCounted(pipeline.deadLetters, 'event'),
      details: [{ label: 'full', value: pipeline.deadLetterFill === null ? UNKNOWN : `${Math.round(pipeline.deadLetterFill * 100)} %` }]
    },
    {
      name: 'Flags and API',
      state: stateOf(status, 'api', isFlowing(api.requestsPerSecond)),
      headline: `${formatRate(api.requestsPerSecond)} requests/s`,
      details: [
        { label: 'answer', value: formatMs(api.requestMs) },
        { label: 'flag evaluations', value: `${formatRate(api.flagEvaluationsPerSecond)}/s` },
        { label: 'Postgres', value: stores.postgres === null ? 'no answer' : formatBytes(stores.postgres.bytes) }
      ]
    }
  ]
}

/** The word for the whole, and the sentence that explains it. */
export function describeWhole (
  { status, clients, stuck, pipeline }: Status
): { word: string, state: StageState, sentence: string } {
  const captures = {
    answered: 'Captures are answered',
    spooled: 'Captures are answered from the disk of ingest',
    refused: 'Captures are refused with 503: SDKs retry for seconds to minutes',
    'no answer': 'Captures get no answer'
  }[clients.captures]
  const sentence = `${captures}; flags ${clients.flags === 'answered' ? 'are answered' : 'get no answer'}.`
  switch (status) {
    case 'ok': return (pipeline.deadLetters ?? 0) === 0
      ? { word: 'Everything works', state: 'ok', sentence }
      : { word: 'Dead letters waiting', state: 'waiting', sentence: `${sentence} Everything works.` }
    case 'behind': return { word: 'Behind', state: 'waiting', sentence: `${sentence} Everything works, but there is a backlog.` }
    case 'degraded': return { word: 'Degraded', state: 'waiting', sentence: stuck.length === 0 ? sentence : `${sentence} A part is stuck or does not answer.` }
    case 'down': return { word: 'Down', state: 'stopped', sentence }
  }
}

/** Something that holds, or does not, or is not known. */
export interface Assurance {
  name: string
  state: StageState
  sentence: string
}

/** Books that were not compared for so long say nothing any more, in seconds. */
const OLD_BOOKS_SECONDS = 300

/** What an operator can rely on: that nothing is missing or doubled, and up to when everything is there. */
export function describeAssurances (
  { books, backup, stores, powerCuts }: Status, formatTime: (iso: string) => string
): Assurance[] {
  return [
    describeBooks(books), describeWatermark(stores.watermark, formatTime), ...describeBackup(backup),
    // Nothing where they are survived, as promised.
    ...powerCuts === null ? [] : [{ name: 'Power cuts', state: 'waiting' as const, sentence: `Not survived: ${showText(powerCuts)}.` }]
  ]
}

/** A backup may be late by this many intervals, as in the pipeline's health. */
const LATE_INTERVALS = 2

/** Nothing where no backups are made. */
function describeBackup ({ ageSeconds, intervalSeconds, failed, lastError, lastWarning }: Status['backup']): Assurance[] {
  const name = 'Last backup'
  const interval = intervalSeconds ?? 0
  if (ageSeconds === null && !failed && interval <= 0) return []
  const age = ageSeconds === null ? 'No backup yet' : `Made ${formatSeconds(ageSeconds)} ago`
  if (failed) return [{ name, state: 'stopped', sentence: `${age}. The last one failed: ${showText(lastError ?? UNKNOWN)}.` }]
  const isLate = ageSeconds !== null && interval > 0 && ageSeconds > LATE_INTERVALS * interval
  if (isLate) return [{ name, state: 'waiting', sentence: `${age}, which is more than two intervals.` }]
  if (lastWarning !== null) return [{ name, state: 'waiting', sentence: `${age}. ${showText(lastWarning)}.` }]
  return [{ name, state: ageSeconds === null ? 'waiting' : 'ok', sentence: `${age}.` }]
}

function describeBooks (books: Status['books']): Assurance {
  const name = 'Books'
  if (books === null) return { name, state: 'unknown', sentence: 'Unknown: the pipeline process that compares them does not answer.' }
  const { missing, extra, ageSeconds } = books
  if (missing + extra > 0) {
    const sentence = `Not in balance in the last three hours: ${formatCounted(missing, 'event')} missing, ${formatCount(extra)} extra. ` +
      'See which minutes: npx millrace audit'
    return { name, state: 'stopped', sentence }
  }
  if (ageSeconds > OLD_BOOKS_SECONDS) return { name, state: 'unknown', sentence: `Unknown: not compared for ${formatSeconds(ageSeconds)}.` }
  return { name, state: 'ok', sentence: `In balance: no events missing or extra in the last three hours. Compared ${formatSeconds(ageSeconds)} ago.` }
}

function describeWatermark (watermark: Status['stores']['watermark'], formatTime: (iso: string) => string): Assurance {
  const name = 'Complete through'
  if (watermark === null) return { name, state: 'unknown', sentence: 'Unknown: ClickHouse does not answer, or the pipeline has not written the watermark yet.' }
  const { completeThrough, heldBy } = watermark
  const sentence = `Everything received before ${formatTime(completeThrough)} is stored or dead-lettered.`
  return heldBy === '' ? { name, state: 'ok', sentence } : { name, state: 'waiting', sentence: `${sentence} Later ones wait: ${showText(heldBy)}.` }
}

function stateOf (status: Status, tier: string, isFlowing: boolean, isBehind = false): StageState {
  const processes = status.tiers.filter((each) => each.tier === tier)
  if (processes.length === 0) return 'unknown'
  if (processes.every((each) => each.status === 'down')) return 'stopped'
  if (isBehind || processes.some((each) => each.status === 'degraded' || each.status === 'down')) return 'waiting'
  return isFlowing ? 'ok' : 'idle'
}

function isFlowing (perSecond: number | null): boolean {
  return perSecond !== null && perSecond > 0
}
