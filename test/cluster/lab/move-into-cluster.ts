/** Moves an embedded ClickHouse into the cluster, with kill -9 in the middle and live events beside it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { startClickHouse } from '../../../embedded/supervisor/start-clickhouse.ts'
import { connectClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { migrateClickHouse } from '../../../schema/migrate/migrate-clickhouse.ts'
import type { Supervise, SupervisedPart } from '../../faults/system/supervise.ts'
import { freePort } from '../../support/local-ports.ts'
import { waitFor } from '../../support/wait-for.ts'
import { expect } from './compare-nodes.ts'
import { createTraffic, openProduct } from './open-product.ts'

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
  let sourceUrl = ''
  const embedded = await supervise('embedded clickhouse', async (signal, onSpawn) => {
    const service = await startClickHouse({
      dataDir: folder, port: await freePort(), password: 'lab', analystPassword: 'lab', signal, onSpawn
    })
    sourceUrl = service.url
    return service
  })
  await migrateClickHouse(sourceUrl, {})
  await fillSource(sourceUrl, rows)
  const options = { dataDir: folder, cluster: '', urls: { pipeline: sourceUrl, api: sourceUrl, analyst: sourceUrl } }
  const product = await openProduct(options, supervise)
  const traffic = createTraffic(product)
  const live = traffic.start()
  let memory = 0
  const run = async (args: readonly string[], killAt = Infinity) => {
    const startedAt = performance.now()
    const { PATH, HOME } = process.env
    const child = spawn(process.execPath, [MAIN, 'move', 'clickhouse', '--to', target, '--to-cluster', cluster, ...args],
      { env: { PATH, HOME, CLICKHOUSE_URL: sourceUrl, NATS_URL: product.natsUrl }, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        out += chunk.toString()
        memory = Math.max(memory, readPeak(child.pid))
        if (countCopied(out) >= killAt) child.kill('SIGKILL')
      })
    }
    const [code] = await once(child, 'close') as [number | null]
    return { code, seconds: Math.round((performance.now() - startedAt) / 1000), out }
  }
  const killed = await run(['--migrate'], rows / 2)
  expect(killed.code === null, `the first run ended with ${killed.code}: ${killed.out}`)
  const copied = await run([])
  expect(copied.code === 0, `the second run ended with ${copied.code}: ${copied.out}`)
  const finished = await run(['--finish'])
  expect(finished.code === 0 && finished.out.includes('Both sides are equal'), `--finish ended with ${finished.code}: ${finished.out}`)

  const pipeline = product.parts.find(({ name }) => name === 'pipeline') as SupervisedPart
  const startPipeline = await pipeline.keepStopped('kill')
  Object.assign(options, { cluster, urls: Object.assign(options.urls, { pipeline: target }) })
  await startPipeline()
  await traffic.send(1000)
  await live.stop()
  const wanted = rows + traffic.acknowledged
  const client = connectClickHouse({ url: `${target}_all`, cluster, requestTimeoutMs: 600_000 })
  const count = async (query: string): Promise<number> =>
    Number((await queryRows<{ n: number }>(client, `SELECT toFloat64((SELECT ${query})) AS n`))[0]?.n)
  await waitFor(async () => {
    const counts = [await count('count() FROM events SETTINGS final = 0'), await count('sum(volume) FROM event_volumes')]
    expect(counts.every((each) => each === wanted), `the cluster has and counts ${counts.join(', ')} of ${wanted} events`)
    return true
  }, { timeoutMs: 600_000, everyMs: 2000 })
  const distinct = await count('count() FROM events SETTINGS final = 1')
  expect(distinct === wanted, `the cluster has ${distinct} of ${wanted} events once`)
  await client.close()
  await product.close()
  for (const part of [...product.parts.reverse(), embedded]) await part.stop()
  return `${rows} events in ${killed.seconds} s until kill -9, ${copied.seconds} s, and ${finished.seconds} s to finish, in ${Math.round(memory / 1024)} MB; ` +
    `${traffic.acknowledged} events came meanwhile, 0 lost, 0 twice`
}

async function fillSource (url: string, rows: number): Promise<void> {
  const source = connectClickHouse({ url, requestTimeoutMs: 600_000 })
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
  await source.close()
}

/** Events that a run says it has copied, of all months. */
function countCopied (out: string): number {
  const months = new Map([...out.matchAll(/^(\d{6}): (\d+) events copied$/gm)].map(([, month, count]) => [month, Number(count)]))
  return months.values().reduce((sum, count) => sum + count, 0)
}

/** Peak memory of a process, in KiB. */
function readPeak (pid: number | undefined): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
