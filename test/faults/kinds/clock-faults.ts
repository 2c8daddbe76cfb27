import { rm, writeFile } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../../support/wait-for.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'
import { countStored } from './event-faults.ts'
import type { Fault, FaultContext } from './fault.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'

const HOUR_MS = 3_600_000

/** Events of the batch that is sent again on each side of a jump. */
const REPEATED_EVENTS = 20

/** Until each process has read how far its clock is off, in milliseconds. */
const SHIFTED_WITHIN_MS = 500

/** The clocks of the tiers; that of the machine, and so of the services, is left alone. */
export const CLOCK_FAULTS: readonly Fault[] = [
  {
    name: 'clock-back',
    what: 'the clock of ingest and pipeline jumps back by an hour, then forward again',
    lastsMs: [6000, 1500],
    inject: async (context) => await shiftClocks(context, { ingest: -HOUR_MS, pipeline: -HOUR_MS })
  },
  {
    name: 'clocks-apart',
    what: 'ingest is two days ahead of the services, the pipeline three days behind them, then both are right again',
    lastsMs: [20_000, 6000],
    inject: async (context) => await shiftClocks(context, { ingest: 48 * HOUR_MS, pipeline: -72 * HOUR_MS })
  }
]

/**
 * One batch is sent before, meanwhile and afterwards, as an SDK does that got no answer: it must be one.
 *
 * @returns how to put them right.
 */
async function shiftClocks (
  { system, expect }: Pick<FaultContext, 'system' | 'expect'>, shifts: Readonly<Record<'ingest' | 'pipeline', number>>
): Promise<() => Promise<void>> {
  const tiers = ['ingest', 'pipeline'] as const
  const distinctId = `${SDK_DISTINCT_ID}clock ${randomUUID()}`
  const body = buildBatch(distinctId)
  expect(async () => {
    const stored = await countStored(system, distinctId)
    return stored === REPEATED_EVENTS ? null : `of ${REPEATED_EVENTS} events that were sent on each side of the jump ${stored} are stored`
  })
  await send(system, body, 0)
  for (const tier of tiers) await writeFile(system.clockFile(tier), String(shifts[tier]))
  await delay(SHIFTED_WITHIN_MS)
  await send(system, body, 1)
  return async () => {
    for (const tier of tiers) await rm(system.clockFile(tier), { force: true })
    await delay(SHIFTED_WITHIN_MS)
    await send(system, body, 0)
  }
}

function buildBatch (distinctId: string): string {
  const now = new Date().toISOString()
  const time = Date.now().toString(16).padStart(12, '0')
  const batch = Array.from({ length: REPEATED_EVENTS }, (_, index) => ({
    event: 'sent across a jump', distinct_id: distinctId, timestamp: now, properties: { index },
    // Of version 7, as current SDKs make them.
    uuid: `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
  }))
  return JSON.stringify({ api_key: FAULT_PROJECT_KEY, sent_at: now, batch })
}

/** As an SDK behind a load balancer: while another fault keeps the process away, the other process gets it. */
async function send ({ ingest }: FaultSystem, body: string, process: 0 | 1): Promise<void> {
  let attempts = 0
  await waitFor(async () => {
    const { port } = ingest[(process + attempts++) % 2 === 0 ? 0 : 1]
    const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body
    })
    await response.arrayBuffer()
    if (response.status !== 200) throw new Error(`a batch was answered with ${response.status}`)
    return true
  }, { everyMs: 100 })
}
