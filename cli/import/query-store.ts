/** Questions to the stored events, asked as SQL of an analyst over the management API. */
import { setTimeout as sleep } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import type { ManagementAccess } from '../management-client.ts'
import { DAY_MS, type Digest, type EventHashes, HASHES_SQL } from './event-digest.ts'

export interface StoredEvents {
  /** Digests of the project by day and name, of the days from `first` to `last`. */
  digests: (first: number, last: number) => Promise<Digest[]>
  /** The events of one name and day by their uuid and distinct id. */
  events: (day: number, event: string) => Promise<Map<string, EventHashes>>
  /** The moment of receipt before which everything is stored, epoch milliseconds; 0 while it is unknown. */
  completeThrough: () => Promise<number>
}

const MAX_ROWS = 10_000
/** The API may be away for so long, and is asked again after this, in milliseconds. */
const PATIENCE_MS = 120_000
const PAUSE_MS = 1000
const NIL_UUID = '00000000-0000-0000-0000-000000000000'

const dayOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)

/** @throws from each: {MillraceError} `MILLRACE_IMPORT_UNVERIFIED` when ClickHouse does not answer the question. */
export function queryStoredEvents (access: ManagementAccess, project: number): StoredEvents {
  const ask = createAsk(access, project)

  async function digests (first: number, last: number): Promise<Digest[]> {
    const { rows, isCut } = await ask(`SELECT toUnixTimestamp(toStartOfDay(timestamp, 'UTC')) / 86400 AS day, event, toString(count()),
        toString(groupBitXor(identity)), toString(sum(identity)), toString(sum(bitXor(identity, properties_hash)))
      FROM (SELECT timestamp, event, ${HASHES_SQL} FROM events
        WHERE project_id = {project:UInt32} AND timestamp >= {first:Date} AND timestamp < {end:Date})
      GROUP BY day, event ORDER BY day, event`, { first: dayOf(first), end: dayOf(last + 1) })
    if (isCut && first < last) {
      const middle = Math.floor((first + last) / 2)
      return [...await digests(first, middle), ...await digests(middle + 1, last)]
    }
    return rows.map(([day, event, count, xor, sum, withProperties]) => ({
      day: Number(day), event: String(event), count: Number(count), xor: BigInt(String(xor)), sum: BigInt(String(sum)),
      withProperties: BigInt(String(withProperties))
    }))
  }

  return {
    digests,
    async events (day, event) {
      const found = new Map<string, EventHashes>()
      for (let after = [NIL_UUID, '']; ;) {
        const [uuid = '', id = ''] = after
        const { rows } = await ask(`SELECT toString(uuid), distinct_id, toString(identity), toString(properties_hash)
          FROM (SELECT uuid, distinct_id, timestamp, event, ${HASHES_SQL} FROM events
            WHERE project_id = {project:UInt32} AND timestamp >= {first:Date} AND timestamp < {end:Date} AND event = {event:String})
          WHERE (uuid, distinct_id) > ({uuid:UUID}, {id:String})
          ORDER BY uuid, distinct_id`, { first: dayOf(day), end: dayOf(day + 1), event, uuid, id })
        for (const row of rows) {
          const [uuid, id, identity, properties] = row.map(String)
          found.set(`${uuid} ${id}`, { identity: BigInt(identity ?? 0), properties: BigInt(properties ?? 0) })
        }
        const last = rows.at(-1)
        if (last === undefined || rows.length < MAX_ROWS) return found
        after = [String(last[0]), String(last[1])]
      }
    },
    async completeThrough () {
      const { rows } = await ask('SELECT toString(toUnixTimestamp64Milli(complete_through)) FROM watermarks WHERE project_id = 0')
      return Number(rows[0]?.[0] ?? 0)
    }
  }
}

type Ask = (query: string, parameters?: Record<string, string>) => Promise<{ rows: unknown[][], isCut: boolean }>

/** Makes what asks a question, and asks it again while the API is away, as when it is started anew. */
function createAsk ({ url, key }: ManagementAccess, project: number): Ask {
  return async function ask (query, parameters = {}) {
    const named = { project: String(project), ...parameters }
    const text = await post(JSON.stringify({ query, parameters: named, max_rows: MAX_ROWS }))
    const rows: unknown[][] = []
    let isCut = false
    for (const line of text.split('\n')) {
      if (line === '') continue
      const { rows: more = [], end, error } = JSON.parse(line) as {
        rows?: unknown[][], end?: { cut: string | null }, error?: { detail: string }
      }
      if (error !== undefined) throw new MillraceError('MILLRACE_IMPORT_UNVERIFIED', error.detail)
      for (const row of more) rows.push(row)
      isCut = end?.cut === 'rows' || end?.cut === 'bytes'
    }
    return { rows, isCut }
  }

  async function post (body: string): Promise<string> {
    const givesUpAt = performance.now() + PATIENCE_MS
    for (;;) {
      try {
        const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
        const response = await fetch(new URL('/api/sql', url), { method: 'POST', headers, body })
        const text = await response.text()
        if (response.ok) return text
        const isFinal = response.status < 500 && response.status !== 429
        if (isFinal || performance.now() > givesUpAt) {
          throw new MillraceError('MILLRACE_IMPORT_UNVERIFIED', `the API answered ${response.status}: ${text.slice(0, 300)}`)
        }
      } catch (error) {
        if (error instanceof MillraceError || performance.now() > givesUpAt) throw error
      }
      await sleep(PAUSE_MS)
    }
  }
}
