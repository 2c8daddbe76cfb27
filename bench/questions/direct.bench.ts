import { createClient } from '@clickhouse/client'
import { createEventSource } from '../load/prepare-events.ts'
import { median, type BenchContext, type Figure, type Question } from '../question.ts'
import { cpuBetween, readTiers } from '../read-stack.ts'

/** What the same rows cost when an engineer inserts them by hand: JSONEachRow with the official client. */
export const direct: Question = {
  name: 'direct',
  asks: 'the same rows straight into the same table by @clickhouse/client, JSONEachRow',
  async answer (context) {
    const figures: Figure[] = []
    for (const rows of [10_000, 100_000]) {
      const costs: number[] = []
      for (let repetition = 0; repetition < context.repetitions; repetition++) {
        costs.push(await insertOnce(context, rows, rows + repetition))
      }
      figures.push({ name: `cpu ${rows} rows`, value: median(costs), unit: 'us/event' })
    }
    const cpu = context.figures.get('batch/cpu')
    const reference = figures.at(-1)
    if (cpu !== undefined && reference !== undefined) {
      figures.push({
        name: 'batch against direct', value: cpu.value, unit: 'us/event',
        reference: { name: 'direct, 100,000 rows', value: reference.value }, target: { atMost: 2 }
      })
    }
    return figures
  }
}

async function insertOnce ({ stack }: BenchContext, rows: number, seed: number): Promise<number> {
  const client = createClient({ url: stack.clickhouseUrl })
  const nextEvent = createEventSource(seed)
  const values = Array.from({ length: rows }, () => toRow(nextEvent() as SentEvent))
  const supervisor = stack.supervisor.pid as number
  const before = readTiers(supervisor)
  const ownBefore = process.cpuUsage()
  await client.insert({ table: 'events', values, format: 'JSONEachRow' })
  const own = process.cpuUsage(ownBefore)
  const { clickhouse } = cpuBetween(before, readTiers(supervisor))
  await client.close()
  return (own.user + own.system + clickhouse) / rows
}

interface SentEvent {
  event: string
  distinct_id: string
  uuid: string
  timestamp: string
  properties: Record<string, unknown>
}

/** The columns that a hand-written insert would fill. */
function toRow ({ event, distinct_id: distinctId, uuid, timestamp, properties }: SentEvent): object {
  return {
    project_id: 2,
    uuid,
    event,
    distinct_id: distinctId,
    timestamp: timestamp.replace('Z', ''),
    received_at: timestamp.replace('Z', ''),
    properties: JSON.stringify(properties),
    session_id: properties.$session_id,
    window_id: properties.$window_id,
    current_url: properties.$current_url,
    host: properties.$host,
    pathname: properties.$pathname,
    referring_domain: properties.$referring_domain,
    browser: properties.$browser,
    browser_version: String(properties.$browser_version),
    os: properties.$os,
    device_type: properties.$device_type,
    lib: properties.$lib,
    lib_version: properties.$lib_version,
    utm_source: properties.utm_source
  }
}
