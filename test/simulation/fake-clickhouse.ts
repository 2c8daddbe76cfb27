/** ClickHouse in memory, as far as the writer of events asks it: inserts that bear a token, and a few queries. */
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { CopyRow } from '../../schema/wire/persons-copies.ts'
import { cellsOf, uuidFromNative } from '../../schema/wire/native-block.ts'
import { LEDGER_TABLE } from '../../schema/wire/ledger.ts'
import { decodeFrame } from '../../schema/wire/frame-codec.ts'
import { type FramesInsert, InsertError, type InsertFrames } from '../../pipeline/events/insert/insert-frames.ts'
import type { InsertTarget } from '../../pipeline/stream/partition-records.ts'
import type { Faults } from './scenario.ts'
import type { VirtualProcess, World } from './virtual-time.ts'
import { REFUSED_EVENT, SHORTER, WORLD_BEGAN_AT } from './world-constants.ts'

export interface StoredRow {
  projectId: number
  uuid: string
  uuidHex: string
  event: string
  distinctId: Buffer
  /** Epoch milliseconds. */
  timestamp: number
  token: string
  insertedAt: number
}

interface Shard {
  rows: StoredRow[]
  /** By token, what its rows were. */
  tokens: Map<string, string>
}

const INSERT_TIMEOUT_MS = 120_000 / SHORTER

/** Maximum rows of the watermark; a real table keeps more, and real processes write more. */
const WATERMARK_ROWS = 3
const HOUR_MS = 3_600_000

/** What makes two rows one event, to the day. */
export function identityOf ({ projectId, uuid, event, distinctId }: StoredRow): string {
  return `${projectId} ${uuid} ${event} ${distinctId.toString()}`
}

export class FakeClickHouse {
  readonly shards: Shard[]
  /** How often each event is stored. */
  readonly #copies = new Map<string, number>()
  /** Totals of the books, by source and key: the highest wins. */
  readonly ledger = new Map<string, Record<string, unknown>>()
  /** Traces of repeated events. */
  readonly traces = new Set<string>()
  /** Copies of persons and groups, by table and key: the highest version counts. */
  readonly copies = new Map<string, CopyRow>()
  readonly violations: string[] = []
  /** Inserts that nobody waits for, and that may still store their rows. */
  unanswered = 0
  /** Called with each row of the watermark. */
  onWatermark: (through: number) => void = () => {}
  #watermarks: number[] = []
  readonly #world: World
  readonly #faults: Faults

  constructor (world: World, faults: Faults, shards: number) {
    this.#world = world
    this.#faults = faults
    this.shards = Array.from({ length: shards }, () => ({ rows: [], tokens: new Map() }))
  }

  /** Epoch milliseconds. */
  get watermark (): number {
    return Math.max(0, ...this.#watermarks)
  }

  copiesOf = (identity: string): number => this.#copies.get(identity) ?? 0

  rows = (): StoredRow[] => this.shards.flatMap(({ rows }) => rows)

  readTarget = async (): Promise<InsertTarget> => ({ split: String(this.shards.length), tables: ['fake'] })

  /** The insert of frames as one process calls it. */
  insertFramesOf (owner: VirtualProcess): InsertFrames {
    return async (insert) => {
      const rows = await readRows(insert)
      const isRefused = rows.some(({ event }) => event === REFUSED_EVENT)
      await this.#insert(owner, this.shards.length, (shards, insertedAt) => {
        this.#commit(insert.token, rows, shards, insertedAt)
      }, { signal: insert.signal, isRefused })
    }
  }

  /** Stores rows as the faults have it, on all shards or some, and answers the process. */
  async #insert (
    owner: VirtualProcess, shards: number, commit: (shards: number, insertedAt: number) => void,
    { signal, isRefused = false }: { signal?: AbortSignal | undefined, isRefused?: boolean } = {}
  ): Promise<void> {
    const world = this.#world
    const fate = this.#faults.fateOfInsert(shards)
    await new Promise<void>((resolve, reject) => {
      const answer = (error: InsertError | null, ms: number): void => {
        world.after(ms, () => { if (error === null) resolve(); else reject(error) }, owner)
      }
      signal?.addEventListener('abort', () => reject(new InsertError('insert failed: aborted', 0)))
      const isDelayed = fate.delayMs !== undefined
      const askedAt = WORLD_BEGAN_AT + world.now
      if (isDelayed) this.unanswered++
      world.serve(fate.delayMs ?? world.between(1, 20), () => {
        const insertedAt = isDelayed ? askedAt : WORLD_BEGAN_AT + world.now
        if (isDelayed) this.unanswered--
        if (fate.silentMs !== undefined) {
          answer(new InsertError(`ClickHouse did not answer within ${INSERT_TIMEOUT_MS} ms`, 0), INSERT_TIMEOUT_MS)
          this.unanswered++
          world.serve(fate.silentMs, () => {
            commit(fate.shards, insertedAt)
            this.unanswered--
          })
          return
        }
        if (this.#faults.isMigrating()) {
          return answer(new InsertError('Code: 16. DB::Exception: No such column', 16), 2)
        }
        if (isRefused) return answer(new InsertError('Code: 117. DB::Exception: Incorrect data', 117), 2)
        commit(fate.shards, insertedAt)
        const { code } = fate
        const text = `Code: ${code}. DB::Exception: while receiving packet from other:9000`
        answer(code === undefined ? null : new InsertError(text, code), world.between(1, 30))
      })
    })
  }

  #keepCopies (table: string, rows: readonly CopyRow[]): void {
    for (const row of rows) {
      const key = `${table} ${String(row.old_person_id ?? row.distinct_id ?? row.person_id)}`
      this.#world.log(`copy ${key} ${row.version}`)
      if ((this.copies.get(key)?.version ?? 0) <= row.version) this.copies.set(key, row)
    }
  }

  /** The client as one process has it. */
  clientOf (owner: VirtualProcess): ClickHouse {
    const ask = async <T> (answer: () => T, probes = false): Promise<T> => {
      const world = this.#world
      let fails = this.#faults.failsQuery()
      return await new Promise<T>((resolve, reject) => {
        world.serve(world.between(1, 20), () => {
          const result = answer()
          fails ||= probes && this.#faults.isMigrating()
          world.after(world.between(1, 10), () => {
            if (fails) reject(Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }))
            else resolve(result)
          }, owner)
        })
      })
    }
    return {
      query: async ({ query, query_params: params }: { query: string, query_params?: Record<string, unknown> }) => {
        const rows = await ask(() => this.#query(query, params ?? {}), query.includes('LIMIT 0'))
        return { json: async () => rows, text: async () => JSON.stringify(rows) }
      },
      exec: async ({ query, query_params: params, values }: {
        query: string, query_params?: { since: number }, values?: Readable
      }) => {
        const [, table] = /^INSERT INTO (\S+)/.exec(query) ?? []
        if (table === undefined) return { stream: [await ask(() => this.#read(query, params?.since ?? 0))] }
        const rows = (await text(values!)).trim().split('\n').map((line) => JSON.parse(line) as CopyRow)
        await this.#insert(owner, 1, (shards) => { if (shards > 0) this.#keepCopies(table, rows) })
        return { stream: [] }
      },
      command: async ({ query, query_params: { through } }: { query: string, query_params: { through: number } }) => {
        await ask(() => this.#raiseWatermark(query.includes('greatest(') ? Math.max(through, this.watermark) : through))
      },
      insert: async ({ table, values }: { table: string, values: Record<string, unknown>[] }) => {
        await ask(() => {
          if (table === LEDGER_TABLE) for (const value of values) this.#addToLedger(value)
          else for (const { project_id: _, ...value } of values) this.traces.add(JSON.stringify(value))
        })
      }
    } as unknown as ClickHouse
  }

  /** Stores the rows on the first shards that have some, unless the token is known there. */
  #commit (token: string, rows: readonly StoredRow[], shards: number, insertedAt: number): void {
    if (rows.some(({ event }) => event === REFUSED_EVENT)) return
    this.shards.slice(0, shards).forEach((shard, index) => {
      const mine = rows.filter(({ distinctId }) => distinctId.at(-1)! % this.shards.length === index)
      if (mine.length === 0) return
      const digest = mine.map(identityOf).join(';')
      const known = shard.tokens.get(token)
      this.#world.log(`insert ${token} on ${index}: ${mine.length} rows${known === undefined ? '' : ', known'}`)
      if (known !== undefined) {
        if (known !== digest) this.violations.push(`token ${token} came with other rows: ${digest} after ${known}`)
        return
      }
      shard.tokens.set(token, digest)
      if (shard.tokens.size > this.#faults.tokenWindow) shard.tokens.delete(shard.tokens.keys().next().value ?? '')
      for (const row of mine) {
        shard.rows.push({ ...row, token, insertedAt })
        const copies = this.copiesOf(identityOf(row)) + 1
        this.#copies.set(identityOf(row), copies)
        if (copies > 1) this.violations.push(`${identityOf(row)} is stored ${copies} times`)
      }
    })
  }

  #query (query: string, params: Record<string, unknown>): unknown[] {
    if (query.includes('toIntervalHour')) {
      const [hours, step] = [Number(params.hours), Number(params.seconds)]
      const since = WORLD_BEGAN_AT + this.#world.now - hours * HOUR_MS
      const seconds = Map.groupBy(this.rows().filter(({ insertedAt }) => insertedAt >= since),
        ({ insertedAt }) => Math.floor(insertedAt / 1000 / step) * step)
      return [...seconds].sort((a, b) => b[0] - a[0]).map(([second, rows]) => ({ second, rows: rows.length }))
    }
    if (query === 'SELECT count() FROM events') return [[String(this.rows().length)]]
    if (query === 'SELECT toFloat64(count()) AS rows FROM events') return [{ rows: this.rows().length }]
    if (query.includes('LIMIT 0') || query.includes('system.mutations')) return []
    if (query.includes('watermark_reached')) return this.watermark === 0 ? [] : [{ through: this.watermark }]
    const uuids = /PREWHERE uuid IN \(SELECT toUUID\(arrayJoin\(splitByChar\(',', '([^']*)'/.exec(query)?.[1]
    if (uuids === undefined) throw new Error(`the simulation does not know the query ${query}`)
    const wanted = new Set(uuids.split(','))
    const token = /insert_token = unhex\('([^']*)'\)/.exec(query)?.[1]
    return this.rows()
      .filter((row) => wanted.has(row.uuid))
      .filter((row) => token === undefined || row.token === Buffer.from(token, 'hex').toString())
      .map(({ projectId, uuidHex, event, distinctId, timestamp }) => [
        projectId, uuidHex, Buffer.from(event).toString('hex'), distinctId.toString('hex'),
        Math.floor(timestamp / 86_400_000)
      ])
  }

  /** RowBinary of what was inserted since then. */
  #read (query: string, since: number): Buffer {
    const rows = this.rows().filter(({ insertedAt }) => insertedAt >= since)
    if (query.startsWith('SELECT uuid FROM')) return Buffer.concat(rows.map(({ uuidHex }) => Buffer.from(uuidHex, 'hex')))
    return Buffer.concat(rows.flatMap(({ projectId, uuidHex, timestamp, event, distinctId }) => {
      const fixed = Buffer.alloc(28)
      fixed.writeUInt32LE(projectId)
      fixed.write(uuidHex, 4, 'hex')
      fixed.writeBigInt64LE(BigInt(timestamp), 20)
      const name = Buffer.from(event)
      return [fixed, Buffer.from([name.length]), name, Buffer.from([distinctId.length]), distinctId]
    }))
  }

  /** Of a table in memory few rows are kept; the highest counts. */
  #raiseWatermark (through: number): void {
    const before = this.watermark
    this.#watermarks = [...this.#watermarks.slice(1 - WATERMARK_ROWS), through]
    if (this.watermark < before) this.violations.push(`the watermark went back from ${before} to ${this.watermark}`)
    this.onWatermark(this.watermark)
  }

  #addToLedger (value: Record<string, unknown>): void {
    const key = `${String(value.source)} ${String(value.project_id)} ${String(value.minute)}`
    if (Number(this.ledger.get(key)?.accepted ?? 0) <= Number(value.accepted)) this.ledger.set(key, value)
  }
}

async function readRows ({ frames }: FramesInsert): Promise<StoredRow[]> {
  const blocks = await Promise.all(frames.map(async (frame) => await decodeFrame(frame, { columns: 5 })))
  return blocks.flatMap((block) => {
    const columns = block.columns.map(({ name }) => cellsOf(block, name))
    return Array.from({ length: block.rows }, (_, row) => {
      const [project, uuid, event, distinctId, timestamp] = columns.map((cells) => Buffer.from(cells[row]!))
      return {
        projectId: project!.readUInt32LE(), uuid: uuidFromNative(uuid!), uuidHex: uuid!.toString('hex'),
        event: event!.toString(), distinctId: distinctId!, timestamp: Number(timestamp!.readBigInt64LE()),
        token: '', insertedAt: 0
      }
    })
  })
}
