/** Counts of repeated inserts when replicas die in the middle of them, and when a shard refuses its rows. */
import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { ClickHouseSettings } from '@clickhouse/client'
import { INSERT_SETTINGS, INSERT_SETTINGS_VERSION } from '../../../pipeline/events/insert/insert-frames.ts'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { waitFor } from '../../support/wait-for.ts'
import { type Ask, expect } from './compare-nodes.ts'
import type { LabProduct, Traffic } from './open-product.ts'
import type { LabNode } from './start-lab.ts'

/** Enough kills that some hit an insert whose rows the other shard has stored already. */
const KILLS = 8
const REFUSED_EVENTS = 20
const SOON = { timeoutMs: 120_000, everyMs: 500 }

export interface CountsDeps {
  nodes: readonly LabNode[]
  traffic: Traffic
  /** Waits until each node counts the events of the traffic, its views too. */
  auditAll: () => Promise<string>
}

/** Kills replicas one after the other while events come in. Each is back and has caught up before the next one dies. */
export async function countThroughKills ({ nodes, traffic, auditAll }: CountsDeps): Promise<string> {
  const going = [traffic.start(), traffic.start()]
  for (let kills = 0; kills < KILLS; kills++) {
    const node = nodes[kills % nodes.length]
    await node?.kill()
    await waitFor(() => node?.isRunning() === true, SOON)
    await traffic.send(200)
  }
  for (const each of going) await each.stop()
  return `${KILLS} kills, ${await auditAll()}`
}

interface RefusalDeps extends CountsDeps {
  product: LabProduct
  connect: (url: string) => ClickHouse
}

/** One shard gets a constraint that the other one lacks: its rows are dead letters, which are replayed without it. */
export async function countRefusals ({ nodes, traffic, auditAll, product, connect }: RefusalDeps): Promise<string> {
  const node = nodes.at(-1) as LabNode
  const alter = async (what: string): Promise<void> => {
    await connect(node.url('default')).command({ query: `ALTER TABLE events ${what}` })
  }
  await alter("ADD CONSTRAINT lab_refusal CHECK event != 'refused by a shard'")
  const events = Array.from({ length: REFUSED_EVENTS }, () => ({
    event: 'refused by a shard', distinct_id: 'person 1', uuid: randomUUID(), properties: { index: 0 }
  }))
  await product.send(events)
  traffic.acknowledged += events.length
  await traffic.send(100)
  const refused = await waitFor(async () => {
    const { body } = await product.call('GET', '/api/projects/1/dead_letters/?limit=100')
    const [row] = await connect(node.url('default', 'millrace_all')).query({
      query: "SELECT toUInt32(count()) AS stored FROM events WHERE event = 'refused by a shard'", format: 'JSONEachRow'
    }).then(async (result) => await result.json<{ stored: number }>())
    expect(body.count > 0 && body.count + row?.stored === events.length,
      `${body.count} dead letters and ${row?.stored} stored events of ${events.length}`)
    return body.count as number
  }, SOON)
  await alter('DROP CONSTRAINT lab_refusal')
  const { status } = await product.call('POST', '/api/projects/1/dead_letters/replay', {})
  expect(status === 200, `the replay was answered with ${status}`)
  return `${refused} dead letters, ${await auditAll()}`
}

/** Of a token. */
const ROWS = 500
/** Not of the project that the other steps count. */
const PROJECT = 7

/** Inserts the rows of a token as the pipeline inserts a batch range: the same rows and settings each time. */
export async function insertWithToken (
  client: ClickHouse, token: string, settings: ClickHouseSettings = {}
): Promise<void> {
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    columns: ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp', 'property_types'],
    values: Array.from({ length: ROWS }, (_, index) => ({
      project_id: PROJECT,
      uuid: uuidOf(`${token} ${index}`),
      event: token,
      distinct_id: `${index}`,
      timestamp: `2026-11-0${1 + index % 9} 00:00:00.000`,
      property_types: 'eSplan\0eNcount'
    })),
    clickhouse_settings: {
      ...INSERT_SETTINGS[INSERT_SETTINGS_VERSION],
      distributed_foreground_insert: 1, insert_deduplication_token: token, ...settings
    }
  })
}

/** @throws when the rows of a token do not count once, in the table and in its views. */
export async function readCounts (client: ClickHouse, token: string): Promise<string> {
  const [row] = await queryRows<Record<'events' | 'volumes' | 'properties', number>>(client, `
    SELECT toUInt32((SELECT count() FROM events WHERE event = {token:String} SETTINGS final = 0)) AS events,
      toUInt32((SELECT sum(volume) FROM event_volumes_by_day WHERE event = {token:String})) AS volumes,
      toUInt32((SELECT sum(count) FROM event_property_counts WHERE event = {token:String} AND property = 'plan')) AS properties`, { token })
  const counts = [row?.events, row?.volumes, row?.properties]
  if (counts.some((count) => count !== ROWS)) throw new Error(`${ROWS} rows are counted as ${counts.join(', ')}`)
  return `${ROWS} rows`
}

function uuidOf (text: string): string {
  const hex = createHash('md5').update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
}

/** Both shards with two replicas each need some 210; the tables at rest ask now and then. */
const MAX_KEEPER_REQUESTS = 300
const COUNTED_INSERTS = 20
const AT_REST_MS = 10_000

interface KeeperDeps {
  nodes: readonly LabNode[]
  ask: Ask
  /** Of a login that may insert, on the tables of all shards. */
  client: ClickHouse
}

/** Counts Keeper requests of inserts into both shards, beside the background requests. */
export async function countKeeperRequests ({ nodes, ask, client }: KeeperDeps): Promise<string> {
  const countAll = async (): Promise<number> => {
    const rows = await Promise.all(nodes.map(async (node) => await ask<{ n: string }>(node,
      "SELECT toString(sum(value)) AS n FROM system.events WHERE event = 'ZooKeeperTransactions'")))
    return rows.reduce((sum, [row]) => sum + Number(row?.n), 0)
  }
  const rest = await countAll()
  await delay(AT_REST_MS)
  const before = await countAll()
  const startedAt = performance.now()
  for (let count = 0; count < COUNTED_INSERTS; count++) await insertWithToken(client, randomUUID())
  // Until the other replicas have copied the last one.
  await delay(AT_REST_MS)
  const atRest = (before - rest) / AT_REST_MS * (performance.now() - startedAt)
  const requests = Math.round((await countAll() - before - atRest) / COUNTED_INSERTS)
  expect(requests <= MAX_KEEPER_REQUESTS, `an insert asks Keeper ${requests} times`)
  return `${requests} requests`
}
