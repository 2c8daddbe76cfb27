import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { queryRows, connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { LAB_PROJECT_KEY, openProduct } from '../../test/cluster/lab/open-product.ts'
import { LAB_CLUSTER, type LabNode, startLab } from '../../test/cluster/lab/start-lab.ts'
import { supervise, type Supervise, type SupervisedPart } from '../../test/faults/system/supervise.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { type BenchContext, type Figure, median, type Question, repeat } from '../question.ts'
import { cpuBetween, readTiers } from '../read-stack.ts'

const EVENTS_PER_REQUEST = 100

/** The load of `batch` on a ClickHouse cluster of one shard and of two, one replica each, on this machine. */
export const shards: Question = {
  name: 'shards',
  asks: 'gzip batches of 100 events, 16 connections, on a ClickHouse cluster of 1 and of 2 shards on this machine',
  isLong: true,
  async answer (context) {
    return [...await measure(context, [1]), ...await measure(context, [1, 2])]
  }
}

async function measure (context: BenchContext, places: readonly number[]): Promise<Figure[]> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-bench-shards-'))
  const parts: SupervisedPart[] = []
  const surprises: string[] = []
  const keep: Supervise = async (name, start) => {
    const onSurprise = (what: string): unknown => surprises.push(what)
    const part = await supervise({ name, start, giveUp: new AbortController().signal, onSurprise })
    parts.push(part)
    return part
  }
  const closers: (() => Promise<unknown>)[] = []
  try {
    const lab = await startLab({ dataDir, shards: places }, keep)
    closers.push(lab.close)
    await migrateClickHouse((lab.nodes[0] as LabNode).url('default'), { cluster: LAB_CLUSTER })
    const all = lab.url('millrace_api', 'millrace_all')
    const urls = { pipeline: lab.url('millrace_pipeline'), api: all, analyst: all }
    const product = await openProduct({ dataDir, cluster: LAB_CLUSTER, urls }, keep)
    closers.push(product.close)
    const client = connectClickHouse({ url: all, cluster: LAB_CLUSTER })
    closers.push(async () => { await client.close() })
    const count = async (): Promise<number> => Number((await queryRows<{ n: number }>(client, 'SELECT count() AS n FROM events'))[0]?.n)
    const requests = context.quick ? 500 : 2000
    const events = requests * EVENTS_PER_REQUEST
    const runs = await repeat(context, async (repetition) => {
      const load = await prepareLoad({
        port: Number(new URL(product.ingestUrl).port), path: '/batch/', apiKey: LAB_PROJECT_KEY, seed: 9000 + repetition,
        requests, eventsPerRequest: EVENTS_PER_REQUEST, connections: 16, gzip: true
      })
      const before = await count()
      const cpuBefore = readTiers(process.pid)
      const startedAt = performance.now()
      const { failed, durationMs } = await load.run()
      if (failed > 0) throw new Error(`${failed} of ${requests} requests failed`)
      await waitFor(async () => await count() - before === events, { timeoutMs: 120_000, everyMs: 100 })
      const visibleMs = performance.now() - startedAt
      const cpu = cpuBetween(cpuBefore, readTiers(process.pid))
      return {
        accepted: events / durationMs * 1000,
        visible: events / visibleMs * 1000,
        clickhouse: cpu.clickhouse / events,
        pipeline: cpu.pipeline / events
      }
    })
    if (surprises.length > 0) throw new Error(surprises.join('; '))
    const name = (what: string): string => `${what}, ${places.length} ${places.length === 1 ? 'shard' : 'shards'}`
    const pick = (of: keyof (typeof runs)[number]): number => median(runs.map((run) => run[of]))
    return [
      { name: name('accepted'), value: pick('accepted'), unit: 'events/s' },
      { name: name('visible'), value: pick('visible'), unit: 'events/s' },
      { name: name('cpu pipeline'), value: pick('pipeline'), unit: 'us/event' },
      { name: name('cpu clickhouse'), value: pick('clickhouse'), unit: 'us/event' }
    ]
  } finally {
    for (const part of parts.reverse()) await part.stop()
    for (const close of closers.reverse()) await close()
    await rm(dataDir, { recursive: true, force: true })
  }
}
