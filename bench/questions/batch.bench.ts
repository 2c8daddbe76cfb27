import { gunzipSync, gzipSync } from 'node:zlib'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers as createHeaders } from '@nats-io/transport-node'
import { FrameEncoder } from '../../ingest/frames/frame-encoder.ts'
import type { UuidWords } from '../../engines/uuid.ts'
import type { EventRow } from '../../ingest/event.ts'
import {
  createClickHouseAgent, createInsertFrames, INSERT_SETTINGS, INSERT_SETTINGS_VERSION
} from '../../pipeline/events/insert/insert-frames.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { median, percentile, type BenchContext, type Figure, type Question, repeat } from '../question.ts'
import {
  auditEvents, countEvents, cpuBetween, readMergeCpu, readTiers, type Tier, waitUntilVisible
} from '../read-stack.ts'

const EVENTS_PER_REQUEST = 100
const ROWS_PER_FRAME = 1000
const CONNECTIONS = 16
/** The tiers that touch every event. */
const EVENT_TIERS: readonly Tier[] = ['ingest', 'nats', 'pipeline', 'clickhouse']

/**
 * How fast gzip batches of 100 events become visible rows, what CPU each tier spends on an event, and what its
 * unavoidable steps cost alone.
 */
export const batch: Question = {
  name: 'batch',
  asks: 'gzip batches of 100 events of about 770 bytes and 22 properties, 16 connections; and through each unavoidable step alone',
  async answer (context) {
    const runs = await repeat(context, async (repetition) => await runOnce(context, 1000 + repetition))
    const pick = (read: (run: BatchRun) => number): number => median(runs.map(read))
    const cpuWithoutMerges = pick((run) => run.cpuUs - run.mergesUs)
    const figures: Figure[] = [
      { name: 'accepted', value: pick((run) => run.acceptedPerSecond), unit: 'events/s' },
      {
        name: 'visible', value: pick((run) => run.visiblePerSecond), unit: 'events/s', target: { atLeast: 60_000 }
      },
      { name: 'cpu', value: pick((run) => run.cpuUs), unit: 'us/event', target: { atMost: 24 } },
      ...EVENT_TIERS.map((tier): Figure => (
        { name: `cpu ${tier}`, value: pick((run) => run.cpuUsByTier[tier]), unit: 'us/event' })),
      { name: 'cpu of merges in clickhouse', value: pick((run) => run.mergesUs), unit: 'us/event' },
      { name: 'cpu without merges', value: cpuWithoutMerges, unit: 'us/event' },
      { name: 'answer p50', value: pick((run) => percentile(run.latenciesMs, 0.5)), unit: 'ms' },
      { name: 'answer p99', value: pick((run) => percentile(run.latenciesMs, 0.99)), unit: 'ms' }
    ]
    const readings = readTiers(context.stack.supervisor.pid as number)
    for (const tier of EVENT_TIERS) {
      figures.push({ name: `peak rss ${tier}`, value: readings[tier].peakRssBytes / 1e6, unit: 'MB' })
    }
    figures.push(...await measureFloor(context, cpuWithoutMerges))
    return figures
  }
}

interface BatchRun {
  acceptedPerSecond: number
  visiblePerSecond: number
  cpuUs: number
  cpuUsByTier: Record<Tier, number>
  /** Of the background merges, which are part of `clickhouse`. */
  mergesUs: number
  latenciesMs: number[]
}

async function runOnce ({ stack, port, quick }: BenchContext, seed: number): Promise<BatchRun> {
  const requests = quick ? 1000 : 4000
  const events = requests * EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: CONNECTIONS, gzip: true
  })
  const supervisor = stack.supervisor.pid as number
  const before = await countEvents(stack)
  const cpuBefore = readTiers(supervisor)
  const mergesBefore = readMergeCpu(cpuBefore.clickhouse.pid)
  const startedAt = performance.now()
  const result = await load.run()
  if (result.failed > 0) throw new Error(`${result.failed} of ${requests} requests failed`)
  await waitUntilVisible(stack, before, events)
  const visibleMs = performance.now() - startedAt
  const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
  const mergesUs = (readMergeCpu(cpuBefore.clickhouse.pid) - mergesBefore) / events
  await auditEvents(stack, before, events)

  const cpuUsByTier = Object.fromEntries(
    Object.entries(cpu).map(([tier, us]) => [tier, us / events])) as Record<Tier, number>
  return {
    acceptedPerSecond: events / result.durationMs * 1000,
    visiblePerSecond: events / visibleMs * 1000,
    cpuUs: EVENT_TIERS.reduce((sum, tier) => sum + cpuUsByTier[tier], 0),
    cpuUsByTier,
    mergesUs,
    latenciesMs: result.latenciesMs
  }
}

/**
 * What the unavoidable steps cost when each is done alone: the least that any such system can spend. Background merges
 * are not among them, as one large insert has none, so they are left out of the batch that is compared.
 */
async function measureFloor (context: BenchContext, batchCpuUs: number): Promise<Figure[]> {
  const runs = await repeat(context, async (repetition) => await runSteps(context, 7000 + repetition))
  const steps = Object.keys(runs[0] ?? {})
  const figures: Figure[] = steps.map((step) => ({
    name: `step alone: ${step}`, value: median(runs.map((run) => run[step] ?? 0)), unit: 'us/event'
  }))
  const sum = figures.reduce((total, { value }) => total + value, 0)
  return [...figures, {
    name: 'without merges against the steps alone', value: batchCpuUs, unit: 'us/event',
    reference: { name: 'sum of the steps', value: sum }, target: { atMost: 1.4 }
  }]
}

interface SentEvent {
  event: string
  distinct_id: string
  properties: Record<string, unknown>
}

async function runSteps (context: BenchContext, seed: number): Promise<Record<string, number>> {
  const events = context.quick ? 20_000 : 100_000
  const nextEvent = createEventSource(seed)
  const bodies = Array.from({ length: events / EVENTS_PER_REQUEST }, () =>
    gzipSync(JSON.stringify({ batch: Array.from({ length: EVENTS_PER_REQUEST }, nextEvent) })))
  const costs: Record<string, number> = {}
  const timed = async <T>(name: string, tier: Tier | null, work: () => T | Promise<T>): Promise<T> => {
    const supervisor = context.stack.supervisor.pid as number
    const before = tier === null ? null : readTiers(supervisor)
    const own = process.cpuUsage()
    const result = await work()
    const { user, system } = process.cpuUsage(own)
    const server = before === null || tier === null ? 0 : cpuBetween(before, readTiers(supervisor))[tier]
    costs[name] = (user + system + server) / events
    return result
  }

  const texts = await timed('gunzip', null, () => bodies.map((body) => gunzipSync(body).toString()))
  const sent = await timed('parse', null, () => texts.flatMap((text) => (JSON.parse(text) as { batch: SentEvent[] }).batch))
  const payloads = await timed('encode and compress', null, () => encodeEvents(sent, ROWS_PER_FRAME))
  const received = await timed('publish and consume', 'nats', () => passThroughStream(context.stack.natsUrl, payloads))
  await timed('insert with views', 'clickhouse', () => insert(context.stack.clickhouseUrl, received, seed))
  return costs
}

/** Encodes events as ingest does, for a project of its own; a last frame that is not full is left out. */
function encodeEvents (events: readonly SentEvent[], rowsPerFrame: number): Buffer[] {
  const encoder = new FrameEncoder(() => null, 'live')
  const payloads: Buffer[] = []
  const now = Date.now()
  const words: UuidWords = { a: 0, b: 0x7000, c: 0x80000000 | 0, d: 0 }
  for (const { event, distinct_id: distinctId, properties } of events) {
    words.a = now / 65_536 | 0
    words.d++
    const row: EventRow = {
      projectId: 4, uuid: words, event, distinctId, timestamp: now, receivedAt: now, groups: [],
      properties: JSON.stringify(properties), propertyTypes: '', promoted: promoted(properties), schemaVersion: 0,
      sampleWeight: 1, isBot: false
    }
    encoder.append(row)
    if (encoder.rows === rowsPerFrame) payloads.push(encoder.take().payload)
  }
  return payloads
}

/** The promoted values in the order of their columns, spelt out as hand-written code would. */
function promoted (p: Record<string, unknown>): string[] {
  const text = (value: unknown): string => value === undefined ? '' : String(value)
  return [
    text(p.$session_id), text(p.$window_id), '', text(p.$current_url), text(p.$host), text(p.$pathname),
    text(p.$referring_domain), '', text(p.$browser), text(p.$browser_version), text(p.$os), text(p.$device_type),
    text(p.$lib), text(p.$lib_version), text(p.utm_source), '', '', '', '', '', ''
  ]
}

/** Publishes and consumes through a stream of its own, sixteen messages in flight. */
async function passThroughStream (natsUrl: string, payloads: readonly Buffer[]): Promise<Uint8Array[]> {
  const connection = await connect({ servers: natsUrl })
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: 'BENCH_FLOOR', subjects: ['bench.floor'], retention: 'workqueue', storage: 'file' })
  try {
    await manager.consumers.add('BENCH_FLOOR', { durable_name: 'floor', ack_policy: 'explicit' })
    const client = jetstream(connection)
    let next = 0
    await Promise.all(Array.from({ length: 16 }, async () => {
      for (let index = next++; index < payloads.length; index = next++) {
        await client.publish('bench.floor', payloads[index] as Buffer, { msgID: String(index), headers: createHeaders() })
      }
    }))
    const consumer = await client.consumers.get('BENCH_FLOOR', 'floor')
    const received: Uint8Array[] = []
    for await (const message of await consumer.consume({ max_messages: 64 })) {
      received.push(message.data)
      message.ack()
      if (received.length === payloads.length) break
    }
    return received
  } finally {
    await manager.streams.delete('BENCH_FLOOR')
    await connection.drain()
  }
}

async function insert (clickhouseUrl: string, payloads: readonly Uint8Array[], seed: number): Promise<void> {
  const agent = createClickHouseAgent()
  const insertFrames = createInsertFrames({ url: clickhouseUrl, agent })
  await insertFrames({
    frames: payloads.map((payload) => frameOf(payload, ROWS_PER_FRAME)),
    token: `floor-${seed}-${Date.now()}`,
    settings: INSERT_SETTINGS[INSERT_SETTINGS_VERSION] as Record<string, string>
  })
  agent.destroy()
}
