/** Moves an embedded ClickHouse into the cluster, with kill -9 in the middle. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { startNatsServer } from '../../../embedded/nats/start-nats-server.ts'
import { startClickHouse } from '../../../embedded/supervisor/start-clickhouse.ts'
import { connectClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { migrateClickHouse } from '../../../schema/migrate/migrate-clickhouse.ts'
import type { Supervise } from '../../faults/system/supervise.ts'
import { freePort } from '../../support/local-ports.ts'
import { expect } from './compare-nodes.ts'

const MAIN = path.join(import.meta.dirname, '..', '..', '..', 'cli', 'main.ts')
const BATCH = 500_000

interface MoveInto {
  dataDir: string
  /** Address of a database of the cluster that does not exist yet, with an administrator's login. */
  target: string
  cluster: string
  rows: number
}

/** @returns what was copied, and how long each run took. @throws {Error} when the sides are not equal. */
export async function moveIntoCluster (
  { dataDir, target, cluster, rows }: MoveInto, supervise: Supervise
): Promise<string> {
  const folder = path.join(dataDir, 'move')
  await mkdir(folder)
  const addresses = { CLICKHOUSE_URL: '', NATS_URL: '' }
  const parts = [
    await supervise('embedded clickhouse', async (signal, onSpawn) => {
      const service = await startClickHouse({
        dataDir: folder, port: await freePort(), password: 'lab', analystPassword: 'lab', signal, onSpawn
      })
      addresses.CLICKHOUSE_URL = service.url
      return service
    }),
    await supervise('nats of the move', async (signal, onSpawn) => {
      const service = await startNatsServer({ dataDir: folder, port: await freePort(), signal, onSpawn })
      addresses.NATS_URL = service.url
      return service
    })
  ]
  await migrateClickHouse(addresses.CLICKHOUSE_URL, {})
  const source = connectClickHouse({ url: addresses.CLICKHOUSE_URL, requestTimeoutMs: 600_000 })
  for (let from = 0; from < rows; from += BATCH) {
    const count = Math.min(BATCH, rows - from)
    await source.command({
      query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties,
          property_types, current_url)
        SELECT 1, generateUUIDv4(), ['$pageview', 'signed up', 'paid'][number % 3 + 1], concat('person ', toString(cityHash64(number) % 100000)),
          now64(3) - toIntervalSecond(number % 7776000), now64(3) - 600, now64(3) - 600,
          concat('{"n":', toString(number), ',"$current_url":"https://example.com/', hex(sipHash128(number)), '"}'), 'eNn', concat('https://example.com/', toString(number % 1000))
        FROM numbers(${from}, ${count})`
    })
  }
  let memory = 0
  const run = async (args: readonly string[], killAt?: RegExp) => {
    const startedAt = performance.now()
    const { PATH, HOME } = process.env
    const child = spawn(process.execPath, [MAIN, 'move', 'clickhouse', '--to', target, '--to-cluster', cluster, ...args],
      { env: { PATH, HOME, ...addresses }, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        out += chunk.toString()
        memory = Math.max(memory, readPeak(child.pid))
        if (killAt?.test(out) === true) child.kill('SIGKILL')
      })
    }
    const [code] = await once(child, 'close') as [number | null]
    return { code, seconds: Math.round((performance.now() - startedAt) / 1000), out }
  }
  const half = String(Math.floor(rows / 2)).length
  const killed = await run(['--migrate'], new RegExp(`: [1-9]\\d{${half - 1},} events copied`))
  const copied = await run([])
  expect(copied.code === 0, `the second run ended with ${copied.code}: ${copied.out}`)
  const finished = await run(['--finish'])
  expect(finished.code === 0 && finished.out.includes(`${rows} events`), `--finish ended with ${finished.code}: ${finished.out}`)
  const client = connectClickHouse({ url: `${target}_all`, cluster })
  const [row] = await queryRows<{ n: number, views: number }>(client,
    `SELECT toFloat64((SELECT count() FROM events SETTINGS final = 0)) AS n,
      toFloat64((SELECT sum(volume) FROM event_volumes)) AS views`)
  expect(row?.n === rows && row.views === rows, `the cluster has ${row?.n} events and counts ${row?.views} of ${rows}`)
  await Promise.all([source.close(), client.close()])
  for (const part of parts) await part.stop()
  return `${rows} events in ${killed.seconds} s until kill -9, ${copied.seconds} s, and ${finished.seconds} s to finish, in ${Math.round(memory / 1024)} MB`
}

/** Peak memory of a process, in KiB. */
function readPeak (pid: number | undefined): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
