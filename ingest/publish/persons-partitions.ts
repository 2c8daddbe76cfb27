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

/** Updates of one project as a message carries them, in their order. */
export interface JoinedUpdates {
  partition: number
  /** In memory of its own, so that it crosses threads without a copy. */
  payload: Uint8Array
  /** The group types that they give an index. */
  announces: string[]
}

/** Joins the updates of a large body where it is taken: for the event loop there are messages then, not updates. */
export class UpdateJoiner {
  readonly #joined: JoinedUpdates[] = []
  #open: Texts & Omit<JoinedUpdates, 'payload'> | null = null

  append (update: EncodedUpdate): void {
    const { partition, announces } = update
    if (this.#open !== null && !hasRoom(this.#open, update)) this.finish()
    this.#open ??= { partition, announces: [], updates: [], bytes: 0 }
    add(this.#open, update)
    if (announces !== null) this.#open.announces.push(announces)
  }

  /** All that was appended. */
  finish (): JoinedUpdates[] {
    if (this.#open !== null) {
      const { updates, bytes, ...rest } = this.#open
      const payload = Buffer.allocUnsafeSlow(bytes + 1)
      payload.write(joinTexts(updates))
      this.#joined.push({ ...rest, payload })
      this.#open = null
    }
    return this.#joined
  }
}

/** Updates that a message will carry. */
interface Texts {
  updates: string[]
  /** With a comma or bracket before each. */
  bytes: number
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
  /** Adds a message behind all that the partition has of its project; the promise resolves with it. */
  appendJoined (projectId: number, joined: JoinedUpdates): Promise<void>
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
 * Publishes persons updates. Their order matters within a project, so a partition has one message in flight at a time,
 * and what comes meanwhile shares the next one. Projects with joined messages take turns beside that, a message each:
 * a large body may bring a hundred, and updates of other projects do not wait for them.
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
    appendJoined (projectId, { partition, payload, announces }) {
      const done = (partitions[partition] as Partition).appendJoined(projectId, payload)
      if (announces.length > 0) {
        done.then(() => { for (const groupType of announces) remember(projectId, groupType) }, () => {})
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
  const shared: Group[] = []
  /** By project, in the order of their turns: joined messages that wait, and what came behind them. */
  const lanes = new Map<number, Group[]>()
  let isSending = false

  return {
    append (update: EncodedUpdate): Promise<void> {
      const queue = lanes.get(update.projectId) ?? shared
      const last = queue.at(-1)
      const group = last?.payload === null && hasRoom(last, update) ? last : open(queue, null)
      add(group, update)
      return group.done
    },
    appendJoined (projectId: number, payload: Uint8Array): Promise<void> {
      const lane = lanes.get(projectId) ?? []
      lanes.set(projectId, lane)
      return open(lane, payload).done
    }
  }

  function open (queue: Group[], payload: Uint8Array | null): Group {
    const { promise: done, resolve, reject } = Promise.withResolvers<void>()
    // Anyone who appended awaits it; a request that failed for another reason does not, and that is no error of its
    // own.
    done.catch(() => {})
    const group = { updates: [], bytes: 0, payload, done, resolve, reject }
    queue.push(group)
    // At the end of the turn, so that updates of requests that came together travel together.
    if (!isSending) setImmediate(() => { void sendAll() })
    isSending = true
    return group
  }

  async function sendAll (): Promise<void> {
    while (shared.length + lanes.size > 0) {
      // Chosen first: what its project had before the lane was opened is among what is sent before it.
      const [turn] = lanes
      for (const group of shared.splice(0)) await send(group)
      if (turn === undefined) continue
      const [projectId, lane] = turn
      for (const group of lane.splice(0, 1)) await send(group)
      lanes.delete(projectId)
      if (lane.length > 0) lanes.set(projectId, lane)
    }
    isSending = false
  }

  async function send ({ updates, payload, resolve, reject }: Group): Promise<void> {
    const message = { subject, id: nextMessageId(), headers: {}, payload: payload ?? Buffer.from(joinTexts(updates)) }
    await publish(message).then(resolve, reject)
  }
}
