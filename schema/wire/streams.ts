/**
 * The streams, their subjects and the headers of their messages: what every process must agree on.
 *
 * ```
 * EVENTS       events.live.<partition>        events as they happen
 *              events.historical.<partition>  imports (`historical_migration: true`), which must not delay live ones
 * PERSONS      persons.<partition>            what changes persons and groups, in order per project
 * DEAD_LETTER  dead.<stage>.<reason>.<project>.<size>  what could not be stored, replayable
 * WARNINGS     warnings.ingest                counts of what was not stored as sent (`ingestion-warnings.ts`)
 * ```
 *
 * EVENTS and PERSONS are work queues: a message leaves the stream when its consumer acknowledged it, so a full stream
 * always means unprocessed work. EVENTS, PERSONS and DEAD_LETTER refuse new messages when
 * full (`discard: new`) rather than lose old ones.
 *
 * WARNINGS is a work queue as well, but gives up its oldest messages when it is full: a sender of bad events must not
 * be able to stop good ones.
 */
export const EVENTS_STREAM = 'EVENTS'
export const PERSONS_STREAM = 'PERSONS'
export const DEAD_LETTER_STREAM = 'DEAD_LETTER'
export const WARNINGS_STREAM = 'WARNINGS'

/** The subject of all warnings: their order does not matter. */
export const WARNINGS_SUBJECT = 'warnings.ingest'

/** The durable consumer that all pipeline processes share. */
export const WARNINGS_CONSUMER = 'warnings'

/** The two classes of events; each has its own partitions. */
export type EventClass = 'live' | 'historical'

export const EVENT_CLASSES: readonly EventClass[] = ['live', 'historical']

/** How many partitions persons updates are spread over: fixed, because the order per project depends on it. */
export const PERSONS_PARTITIONS = 8

export function eventsSubject (eventClass: EventClass, partition: number): string {
  return `events.${eventClass}.${partition}`
}

export function personsSubject (partition: number): string {
  return `persons.${partition}`
}

/** The durable consumer that owns a partition. */
export function writerConsumer (eventClass: EventClass, partition: number): string {
  return `writer-${eventClass}-${partition}`
}

/** The durable consumer that owns a partition of PERSONS. */
export function personsConsumer (partition: number): string {
  return `persons-${partition}`
}

/** Where a message failed; second token of a dead letter's subject. */
export const DEAD_LETTER_STAGES = ['schema', 'writer', 'persons', 'notify'] as const

export type DeadLetterStage = (typeof DEAD_LETTER_STAGES)[number]

/**
 * The subject of a dead letter. Project and size are in it because the server counts the messages of each subject: so
 * it knows how much of the stream a project has, whatever is replayed or purged.
 *
 * @param project  0: about none, or about several.
 * @param bytes    Of its body.
 */
export function deadLetterSubject (stage: DeadLetterStage, reason: string, project = 0, bytes = 0): string {
  return `dead.${stage}.${reason}.${project}.${Math.ceil(Math.log2(bytes + LETTER_HEADER_BYTES))}`
}

/** What the headers of a letter, and the server's own of each message, take. */
const LETTER_HEADER_BYTES = 1024

/** The subjects of all dead letters of a project. */
export function deadLetterSubjectsOf (project: number): string {
  return `dead.*.*.${project}.*`
}

/** About how many bytes a letter of a subject has; a power of two tells it within 42 %. */
export function letterBytes (subject: string): number {
  return 2 ** (Number(subject.split('.')[4]) - 0.5)
}

/**
 * JetStream forgets message ids after this long, in nanoseconds. Two minutes (the server's default) cover publish
 * retries; longer only costs the server memory. A drained spool can be older: the uuid check of the writer covers it.
 */
const DUPLICATE_WINDOW_NANOS = 120_000_000_000

/** The largest message Millrace publishes: one frame with one huge event. Everything else stays near 1 MB. */
export const MAX_MESSAGE_BYTES = 33_554_432

/** Headers of every message of EVENTS. All values are decimal text. */
export const HEADER = {
  /** Row layout of the frame (`ROW_LAYOUT`). Messages of different layouts never share an insert. */
  layout: 'Millrace-Layout',
  /** Rows in the frame; the payload starts with as many fingerprints (`schema/wire/frame-message.ts`). */
  rows: 'Millrace-Rows',
  /** When the first event of the message was received, epoch milliseconds. In PERSONS: when a replayed letter was. */
  received: 'Millrace-Received',
  /** Id of the first request whose events are in the message, for tracing. */
  request: 'Millrace-Request',
  /**
   * Oldest time, in epoch milliseconds, at which a uuid of the frame was made (`UNTIMED_UUID_AT` for those that do not
   * tell). The writer looks uuids up in ClickHouse that are older than what its memory of stored uuids covers. Absent:
   * none tells a time.
   */
  oldestUuid: 'Millrace-Oldest-Uuid',
  /** Id of the key under which the fingerprints' checks are made. Absent: ingest did not know the key. */
  fingerprintKey: 'Millrace-Fingerprint-Key',
  /**
   * Events by project and minute of receipt (minutes since 1970): `project:minute:events`, joined by commas. For the
   * books (`schema/wire/ledger.ts`). Absent in messages of versions that kept none: the writer counts the rows then.
   */
  accepted: 'Millrace-Accepted',
  /** `1`: a dead letter that was replayed; its events were accepted before. */
  replayed: 'Millrace-Replayed',
  /** `1`: its events may be stored whatever the memory of the partition says; the writer asks ClickHouse about each. */
  lookUp: 'Millrace-Look-Up'
} as const

/** What ingest names its requests: the process, then their number. */
const REQUEST_ID = /^([0-9a-f]{12})-[0-9a-z]+$/

/** The ingest process of a request id; null for another text. */
export function processOfRequest (requestId: string): string | null {
  return REQUEST_ID.exec(requestId)?.[1] ?? null
}

/** The NATS key-value bucket with the record of each partition: its owner, its progress, the batch range under way. */
export const PARTITIONS_BUCKET = 'millrace_partitions'

/** The NATS key-value bucket in which every pipeline process shows that it is alive. */
export const MEMBERS_BUCKET = 'millrace_members'

/** What an operator chooses about the streams. */
export interface StreamLimits {
  replicas: number
  /** Bytes of EVENTS; PERSONS gets a tenth of it, WARNINGS a fiftieth. */
  eventsMaxBytes: number
  deadLetterMaxBytes: number
}

/** One stream, in the words of the JetStream API (names of its JSON fields). */
export interface StreamSettings {
  name: string
  subjects: string[]
  retention: 'workqueue' | 'limits'
  storage: 'file'
  discard: 'new' | 'old'
  max_bytes: number
  max_age: number
  num_replicas: number
  duplicate_window: number
  allow_direct: boolean
}

/** The settings of every stream, from one source for the embedded stack, clusters and tests. */
export function streamSettings (limits: StreamLimits): StreamSettings[] {
  const common = {
    storage: 'file',
    discard: 'new',
    // No message expires by age: waiting is what a stream is for, and a full one is answered by the spool.
    max_age: 0,
    num_replicas: limits.replicas,
    duplicate_window: DUPLICATE_WINDOW_NANOS,
    allow_direct: true
  } as const
  return [
    {
      ...common, name: EVENTS_STREAM, subjects: ['events.>'], retention: 'workqueue', max_bytes: limits.eventsMaxBytes
    },
    {
      ...common, name: PERSONS_STREAM, subjects: ['persons.>'], retention: 'workqueue',
      max_bytes: Math.ceil(limits.eventsMaxBytes / 10)
    },
    {
      ...common, name: DEAD_LETTER_STREAM, subjects: ['dead.>'], retention: 'limits',
      max_bytes: limits.deadLetterMaxBytes
    },
    {
      ...common, name: WARNINGS_STREAM, subjects: ['warnings.>'], retention: 'workqueue', discard: 'old',
      max_bytes: Math.ceil(limits.eventsMaxBytes / 50)
    }
  ]
}
