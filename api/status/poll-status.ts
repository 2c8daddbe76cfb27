import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { coalesce } from '../../platform/intervals.ts'
import { buildStatus, type Reading } from './build-status.ts'
import type { Status } from './status-schema.ts'
import { createReadStores, NOT_RUNNING, readTier, type StoreConnections, type TierName, type TierUrls } from './read-status.ts'

export interface PollOptions {
  /** Addresses of the processes of each tier. */
  urls: TierUrls
  connections: StoreConnections
  /** Epoch milliseconds. */
  now: () => number
}

/** Returns a function that reads all tiers and stores once. It never rejects: what does not answer is null. */
export function createPoll ({ urls, connections, now }: PollOptions): () => Promise<Reading> {
  const readStores = createReadStores(connections)
  return async () => {
    const [stores, ...tiers] = await Promise.all([
      readStores(),
      ...(['ingest', 'pipeline', 'api'] as TierName[]).flatMap((tier) => urls[tier].map(async (url) =>
        await Promise.all((await expandName(url)).map(async (each) => await readTier(tier, each)))))
    ])
    return { time: new Date(now()), stores, tiers: tiers.flat() }
  }
}

/**
 * The URL of each process behind a name that has several addresses, as a headless service of Kubernetes or a scaled
 * service of Docker Compose has. A certificate names its host, so only plain HTTP is expanded.
 */
async function expandName (url: string): Promise<string[]> {
  if (url === NOT_RUNNING) return [url]
  const { protocol, hostname } = new URL(url)
  if (protocol !== 'http:' || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0 || hostname === 'localhost') return [url]
  // A name that nobody knows is shown as a process that does not answer.
  const addresses = await lookup(hostname, { all: true }).catch(() => [])
  if (addresses.length < 2) return [url]
  return addresses.map(({ address, family }) => {
    const each = new URL(url)
    each.hostname = family === 6 ? `[${address}]` : address
    return each.href.replace(/\/$/, '')
  }).sort()
}

/** Rates are computed over at least this time, in milliseconds, and nobody reads the tiers more often. */
const MIN_INTERVAL_MS = 1000

/** A reading older than this says nothing about the rates of now, in milliseconds. */
const MAX_INTERVAL_MS = 10_000

/**
 * Returns a function that gives the status of now, for any number of watchers: however many ask, the tiers are read
 * once a second, and not at all while nobody asks. The first answer takes a second, because rates need two readings.
 */
export function createStatusPoll (
  { poll, sleep }: { poll: () => Promise<Reading>, sleep: (ms: number) => Promise<unknown> }
): () => Promise<Status> {
  let before: Reading | undefined
  let outcome: PromiseSettledResult<Status> | undefined

  async function read (): Promise<Status> {
    const isRecent = before !== undefined && Date.now() - before.time.getTime() <= MAX_INTERVAL_MS
    const first = isRecent && before !== undefined ? before : await poll()
    const age = isRecent ? Date.now() - first.time.getTime() : 0
    if (age < MIN_INTERVAL_MS) await sleep(MIN_INTERVAL_MS - age)
    const now = await poll()
    const status = buildStatus(first, now)
    before = now
    return status
  }

  // `coalesce` asks for work that does not reject: each waiting caller takes the outcome from here.
  const refresh = coalesce(async () => { [outcome] = await Promise.allSettled([read()]) })
  return async () => {
    await refresh()
    if (outcome?.status !== 'fulfilled') throw outcome?.reason
    return outcome.value
  }
}
