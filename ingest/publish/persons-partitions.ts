import { personsPartition, type PersonsUpdate } from '../../schema/persons-update.ts'
import { stringifyJson } from '../../http-body/stringify-json.ts'
import { PERSONS_PARTITIONS, personsSubject } from '../../schema/streams.ts'
import type { Publish } from './durable-publisher.ts'

/** Bytes at which a message of updates is closed: the pipeline reads it as a whole, and every server takes it. */
const MAX_UPDATES_BYTES = 524_288

export interface PersonsPartitionsOptions {
  publish: Publish
  nextMessageId: () => string
}

/** An update as it is published: its JSON, and what publishing needs to know. */
export interface EncodedUpdate {
  text: string
  /** Of the text in UTF-8. */
  bytes: number
  partition: number
  projectId: number
  /** The group type that it gives an index; null for other updates. */
  announces: string | null
}

export function encodeUpdate (update: PersonsUpdate): EncodedUpdate {
  const text = stringifyJson(update)
  return {
    text,
    bytes: Buffer.byteLength(text),
    partition: personsPartition(update),
    projectId: update.projectId,
    announces: update.kind === 'groupType' ? update.groupType : null
  }
}

/** The persons updates in flight, in order by partition. */
export interface PersonsPartitions {
  /** Adds an update to the next message of its partition; the promise resolves with that message. */
  append (update: EncodedUpdate): Promise<void>
  /** Whether a message that gives this group type its index has arrived. */
  isAnnounced (projectId: number, groupType: string): boolean
}

/** A message that still takes updates, or waits for its turn. */
interface Group {
  updates: string[]
  bytes: number
  done: Promise<void>
  resolve: () => void
  reject: (error: unknown) => void
}

/** Group types remembered as announced; an announcement too many is harmless. */
const MAX_ANNOUNCED = 10_000

/**
 * Publishes persons updates. Order matters for them, so a partition has one message in flight at a time, and what
 * comes meanwhile shares the next one.
 */
export function createPersonsPartitions (options: PersonsPartitionsOptions): PersonsPartitions {
  const partitions = Array.from({ length: PERSONS_PARTITIONS }, (_, partition) =>
    createPartition(personsSubject(partition), options))
  const announced = new Set<string>()

  return {
    append (update) {
      const { partition, projectId, announces } = update
      const done = (partitions[partition] as (update: EncodedUpdate) => Promise<void>)(update)
      if (announces !== null) {
        // A failure reaches the request through `done` itself.
        done.then(() => remember(projectId, announces), () => {})
      }
      return done
    },
    isAnnounced: (projectId, groupType) => announced.has(`${projectId}:${groupType}`)
  }

  function remember (projectId: number, groupType: string): void {
    if (announced.size >= MAX_ANNOUNCED) announced.clear()
    announced.add(`${projectId}:${groupType}`)
  }
}

function createPartition (subject: string, { publish, nextMessageId }: PersonsPartitionsOptions) {
  const waiting: Group[] = []
  let isSending = false

  return function append ({ text, bytes }: EncodedUpdate): Promise<void> {
    let group = waiting.at(-1)
    if (group === undefined || group.bytes + bytes > MAX_UPDATES_BYTES) {
      const { promise: done, resolve, reject } = Promise.withResolvers<void>()
      // Anyone who appended awaits it; a request that failed for another reason does not, and that is no error of its
      // own.
      done.catch(() => {})
      group = { updates: [], bytes: 0, done, resolve, reject }
      waiting.push(group)
    }
    group.updates.push(text)
    // And the comma.
    group.bytes += bytes + 1
    if (!isSending) {
      isSending = true
      // At the end of the turn, so that updates of requests that came together travel together.
      setImmediate(() => { void sendAll() })
    }
    return group.done
  }

  async function sendAll (): Promise<void> {
    for (let group = waiting.shift(); group !== undefined; group = waiting.shift()) {
      const payload = Buffer.from(`[${group.updates.join(',')}]`)
      await publish({ subject, id: nextMessageId(), headers: {}, payload }).then(group.resolve, group.reject)
    }
    isSending = false
  }
}
