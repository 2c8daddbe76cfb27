import { setTimeout as delay } from 'node:timers/promises'
import { PostHog } from 'posthog-node'
import type { Fault, FaultContext } from './fault.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'

/** Events captured with the stock SDK in each outage. */
export const SDK_EVENTS = 20

/** How long the SDK may take to hand over what it still holds, in milliseconds. */
const SDK_SHUTDOWN_MS = 30_000

/** Distinct ids of the stock SDK begin so. */
export const SDK_DISTINCT_ID = 'posthog-node '

const SERVICES = { nats: 'nats-server', clickhouse: 'ClickHouse', postgres: 'Postgres' } as const

/** Each service unavailable for a minute, while an unmodified posthog-node with default settings captures 20 events. */
export const OUTAGE_FAULTS: readonly Fault[] = (Object.keys(SERVICES) as (keyof typeof SERVICES)[]).map((service) => ({
  name: `${service}-outage`,
  what: `${SERVICES[service]} is unavailable; a stock posthog-node captures ${SDK_EVENTS} events meanwhile`,
  lastsMs: [60_000, 20_000],
  async inject (context) {
    const comeBack = await context.system[service].keepStopped()
    const captured = captureWithSdk(context.system, service, context.lastsMs)
    return async () => {
      void comeBack()
      const distinctId = await captured
      context.expect(async () => await describeStored(context, distinctId))
    }
  }
}))

/**
 * Captures 20 events, spread over the given time, with default settings.
 *
 * @returns their distinct id, when the SDK handed over what it had.
 */
export async function captureWithSdk (system: FaultSystem, label: string, duringMs: number): Promise<string> {
  const distinctId = `${SDK_DISTINCT_ID}${label} ${Date.now()}`
  const client = new PostHog(FAULT_PROJECT_KEY, { host: `http://127.0.0.1:${system.ingest[0].port}` })
  for (let index = 0; index < SDK_EVENTS; index++) {
    client.capture({ distinctId, event: 'captured in an outage', properties: { index } })
    await delay(duringMs / SDK_EVENTS)
  }
  // What it could not deliver shows in the count.
  await client.shutdown(SDK_SHUTDOWN_MS).catch(() => {})
  return distinctId
}

/** @returns null when all events are stored once. */
export async function describeStored ({ system }: Pick<FaultContext, 'system'>, distinctId: string): Promise<string | null> {
  const [found] = await system.select<{ rows: number, uuids: number }>(
    `SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(uuid)) AS uuids FROM events
     WHERE distinct_id = {distinctId:String}`, { distinctId })
  const { rows = 0, uuids = 0 } = found ?? {}
  if (rows === SDK_EVENTS && uuids === SDK_EVENTS) return null
  return `of ${SDK_EVENTS} events of ${distinctId}, ${uuids} are stored, in ${rows} rows`
}
