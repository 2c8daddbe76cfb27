/** Which pipeline processes are alive. */
import { readFileSync, readlinkSync } from 'node:fs'
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { QueuedIterator } from '@nats-io/transport-node'
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { MEMBERS_BUCKET } from '../../schema/wire/streams.ts'

/** Interval of the heartbeats, in milliseconds. */
const BEAT_MS = 1500

/**
 * A process that was silent for so long, in milliseconds of the observer's own monotonic clock, counts as dead: four
 * missed heartbeats. More than `LEASE_MS`, so the owner has stopped inserting by then.
 */
export const DEAD_AFTER_MS = 6000

interface Member {
  /** Revision of its first heartbeat: the order of joining. */
  joined: number
  place: ProcessPlace | null
  lastSeenAt: number
}

interface MemberValue {
  joined: number
  place: ProcessPlace | null
}

/**
 * Sends the heartbeats of this process, and tells from those of the others which of them are alive. Clocks of machines
 * are never compared: what counts is how long ago a heartbeat arrived here.
 */
export class Membership {
  readonly id: string
  readonly #bucket: KV
  readonly #logger: Logger
  readonly #place = readOwnPlace()
  readonly #members = new Map<string, Member>()
  #joined = 0
  #timer: NodeJS.Timeout | null = null
  #watch: QueuedIterator<KvWatchEntry> | null = null
  #left = false

  constructor (id: string, bucket: KV, logger: Logger) {
    this.id = id
    this.#bucket = bucket
    this.#logger = logger
  }

  /** Resolves when NATS stored the first heartbeat. The other processes are known a moment later. */
  async join (): Promise<void> {
    this.#joined = await this.#bucket.put(this.id, this.#encode())
    // Starts with the last heartbeat of each process in the order of writing: after its own it knows all others.
    void this.#watchAll()
    // Not `runAtIntervals`: a heartbeat must not wait for one that hangs, or a short outage would cost partitions.
    this.#timer = setInterval(() => { void this.#beat() }, BEAT_MS)
  }

  /** Lets the others take over at once. To be called after the partitions were released. */
  async leave (): Promise<void> {
    this.#left = true
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#watch?.stop()
    await this.#bucket.purge(this.id)
  }

  /**
   * Whether a process still works. While this process does not see its own heartbeats, it knows nothing about the
   * others either (it was paused, or NATS is unavailable), and takes them for alive.
   */
  isAlive (id: string): boolean {
    if (!this.#seesItself()) return true
    const member = this.#members.get(id)
    return member !== undefined && this.#isMemberAlive(member)
  }

  /** The living processes in the order in which they joined; null while nothing is known. */
  living (): string[] | null {
    if (!this.#seesItself()) return null
    return [...this.#members]
      .filter(([, member]) => this.#isMemberAlive(member))
      .sort(([a, left], [b, right]) => left.joined - right.joined || (a < b ? -1 : 1))
      .map(([id]) => id)
  }

  /** Whether this process is the oldest living one, which does the work that one process must do; null: unknown. */
  leads (): boolean | null {
    const living = this.living()
    return living === null ? null : living[0] === this.id
  }

  #isMemberAlive (member: Member): boolean {
    return performance.now() - member.lastSeenAt < DEAD_AFTER_MS && !isProcessGone(member.place, this.#place)
  }

  #seesItself (): boolean {
    const own = this.#members.get(this.id)
    return own !== undefined && performance.now() - own.lastSeenAt < 2 * BEAT_MS + 500
  }

  async #beat (): Promise<void> {
    try {
      await this.#bucket.put(this.id, this.#encode())
      await this.#forgetDead()
    } catch (err) {
      if (!this.#left) this.#logger.warn({ err }, 'heartbeat could not be sent')
    }
  }

  /** Removes processes that died long ago, or the bucket would grow with every crash. */
  async #forgetDead (): Promise<void> {
    if (!this.#seesItself()) return
    for (const [id, member] of this.#members) {
      if (performance.now() - member.lastSeenAt > 10 * DEAD_AFTER_MS) await this.#bucket.purge(id)
    }
  }

  async #watchAll (): Promise<void> {
    while (!this.#left) {
      try {
        this.#watch = await this.#bucket.watch()
        for await (const entry of this.#watch) this.#see(entry)
      } catch (err) {
        if (!this.#left) this.#logger.warn({ err }, 'heartbeats of other processes cannot be read, will try again')
      }
      if (!this.#left) await new Promise((resolve) => setTimeout(resolve, BEAT_MS))
    }
  }

  #see (entry: KvWatchEntry): void {
    if (entry.operation !== 'PUT') {
      this.#members.delete(entry.key)
      return
    }
    const { joined, place } = entry.json<MemberValue>()
    this.#members.set(entry.key, { joined: joined || entry.revision, place, lastSeenAt: performance.now() })
  }

  #encode (): string {
    return JSON.stringify({ joined: this.#joined, place: this.#place } satisfies MemberValue)
  }
}

/** Joins the pipeline processes under the given id, which must be new with each start. */
export async function joinMembers (
  connection: NatsConnection, options: { id: string, replicas: number, logger: Logger }
): Promise<Membership> {
  const bucket = await openBucket(connection, MEMBERS_BUCKET, { replicas: options.replicas, isDirect: true })
  const membership = new Membership(options.id, bucket, options.logger)
  await membership.join()
  return membership
}

/** Where a process runs, precisely enough that another one on the same machine can see whether it is gone. */
interface ProcessPlace {
  /** Boot of the machine and pid namespace: pids may only be compared within these. */
  host: string
  pid: number
  /** Start time in clock ticks since boot: a pid can be reused, this cannot. */
  startedAt: string
}

/** @returns null where the system does not tell (not Linux); then only missing heartbeats show that a process died. */
function readOwnPlace (): ProcessPlace | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return {
      host: `${boot} ${readlinkSync('/proc/self/ns/pid')}`, pid: process.pid, startedAt: readStartTime(process.pid)
    }
  } catch {
    return null
  }
}

/** True when the process is certainly gone; false when it lives, or when this machine cannot tell. */
function isProcessGone (place: ProcessPlace | null, own: ProcessPlace | null): boolean {
  if (place === null || own === null || place.host !== own.host) return false
  try {
    return readStartTime(place.pid) !== place.startedAt
  } catch {
    return true
  }
}

/** Field 22 of `/proc/<pid>/stat`; the name in field 2 may hold spaces and parentheses. */
function readStartTime (pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // A process that ended but was not yet collected by its parent counts as gone.
  return fields[0] === 'Z' || fields[0] === 'X' ? 'ended' : fields[19]!
}
