import { personsPartition, type PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { PERSONS_PARTITIONS, personsSubject } from '../../schema/wire/streams.ts'
import type { Publish } from './acknowledged-publisher.ts'

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

/** Updates of one partition as a message carries them, in their order. */
export interface JoinedUpdates {
  partition: number
  /** In memory of its own, so that it crosses threads without a copy. */
  payload: Uint8Array
  /** The group types that they give an index. */
  announces: GroupTypeName[]
}

interface GroupTypeName {
  projectId: number
  groupType: string
}

/** Joins the updates of a large body where it is taken: for the event loop there are messages then, not updates. */
export class UpdateJoiner {
  readonly #open = new Map<number, Open>()
  readonly #joined: JoinedUpdates[] = []

  append (update: EncodedUpdate): void {
    const { partition, projectId, announces } = update
    let open = this.#open.get(partition)
    if (open !== undefined && !hasRoom(open, update)) {
      this.#close(partition, open)
      open = undefined
    }
    if (open === undefined) this.#open.set(partition, open = { updates: [], bytes: 0, announces: [] })
    add(open, update)
    if (announces !== null) open.announces.push({ projectId, groupType: announces })
  }

  /** All that was appended. */
  finish (): JoinedUpdates[] {
    for (const [partition, open] of this.#open) this.#close(partition, open)
    return this.#joined
  }

  #close (partition: number, { updates, bytes, announces }: Open): void {
    const payload = Buffer.allocUnsafeSlow(bytes + 1)
    payload.write(joinTexts(updates))
    this.#joined.push({ partition, payload, announces })
  }
}

/** Updates that a message will carry. */
interface Texts {
  updates: string[]
  /** With a comma or bracket before each. */
  bytes: number
}

interface Open extends Texts {
  announces: GroupTypeName[]
}

function hasRoom ({ bytes }: Texts, update: EncodedUpdate): boolean {
  return bytes + update.bytes <= MAX_UPDATES_BYTES
}

function add (texts: Texts, { text, bytes }: EncodedUpdate): void {
  texts.updates.push(text)
  texts.bytes += bytes + 1
}

function joinTexts (updates: readonly string[]): string {
  return `[${updates.join(',')}]`
}

/** The persons updates in flight, in order by partition. */
export interface PersonsPartitions {
  /** Adds an update to the next message of its partition; the promise resolves with that message. */
  append (update: EncodedUpdate): Promise<void>
  /** Adds a message behind all that its partition has; the promise resolves with it. */
  appendJoined (joined: JoinedUpdates): Promise<void>
  /** Whether a message that gives this group type its index has arrived. */
  isAnnounced (projectId: number, groupType: string): boolean
}

/** A message that still takes updates, or waits for its turn. */
interface Group extends Texts {
  /** Joined already: it takes no more. */
  payload: Uint8Array | null
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
      const done = (partitions[partition] as Partition).append(update)
      if (announces !== null) {
        // A failure reaches the request through `done` itself.
        done.then(() => remember(projectId, announces), () => {})
      }
      return done
    },
    appendJoined ({ partition, payload, announces }) {
      const done = (partitions[partition] as Partition).appendJoined(payload)
      if (announces.length > 0) {
        done.then(() => { for (const { projectId, groupType } of announces) remember(projectId, groupType) }, () => {})
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

type Partition = ReturnType<typeof createPartition>

function createPartition (subject: string, { publish, nextMessageId }: PersonsPartitionsOptions) {
  const waiting: Group[] = []
  let isSending = false

  return {
    append (update: EncodedUpdate): Promise<void> {
      const last = waiting.at(-1)
      const group = last?.payload === null && hasRoom(last, update) ? last : open(null)
      add(group, update)
      sendSoon()
      return group.done
    },
    appendJoined (payload: Uint8Array): Promise<void> {
      const { done } = open(payload)
      sendSoon()
      return done
    }
  }

  function open (payload: Uint8Array | null): Group {
    const { promise: done, resolve, reject } = Promise.withResolvers<void>()
    // Anyone who appended awaits it; a request that failed for another reason does not, and that is no error of its
    // own.
    done.catch(() => {})
    const group = { updates: [], bytes: 0, payload, done, resolve, reject }
    waiting.push(group)
    return group
  }

  function sendSoon (): void {
    if (isSending) return
    isSending = true
    // At the end of the turn, so that updates of requests that came together travel together.
    setImmediate(() => { void sendAll() })
  }

  async function sendAll (): Promise<void> {
    for (let group = waiting.shift(); group !== undefined; group = waiting.shift()) {
      const payload = group.payload ?? Buffer.from(joinTexts(group.updates))
      await publish({ subject, id: nextMessageId(), headers: {}, payload }).then(group.resolve, group.reject)
    }
    isSending = false
  }
}
