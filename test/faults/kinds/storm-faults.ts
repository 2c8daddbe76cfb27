import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../../support/wait-for.ts'
import { findPartitionOwner } from '../system/fault-processes.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'
import type { SupervisedPart } from '../system/supervise.ts'
import { countStored } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'

const CLIENTS = 8
const EVENTS_PER_BATCH = 2000

/** Between two kills, in milliseconds: the part is back by then and at work. */
const KILL_PAUSE_MS = 2000

/** What SDKs do after an outage, and what anybody with a project key can do on purpose. */
export const STORM_FAULTS: readonly Fault[] = [
  {
    name: 'resend-storm',
    what: `${CLIENTS} clients send the same ${EVENTS_PER_BATCH} events again and again, while pipeline and ClickHouse are killed in turn`,
    lastsMs: [12_000, 2500],
    async inject ({ system, random, lastsMs, note, expect }) {
      const distinctId = `${SDK_DISTINCT_ID}storm ${Date.now()}`
      const stop = new AbortController()
      const batches = [buildBatch(distinctId), buildBatch(distinctId)]
      const storm = Promise.all(Array.from({ length: CLIENTS }, async (_, client) =>
        await sendAgain({ system, body: batches[client % 2]!, client, stop: stop.signal })))
      const kills = killInTurn(async () => await findPartitionOwner(system, random), { system, lastsMs })
      // Awaited when the fault is healed; until then a failure must not end the run.
      kills.catch(() => {})
      const expected = batches.length * EVENTS_PER_BATCH
      expect(async () => {
        const stored = await countStored(system, distinctId)
        return stored === expected ? null : `of ${expected} events that were sent again and again ${stored} are stored`
      })
      return async () => {
        await kills
        stop.abort()
        const answers = await storm
        const accepted = answers.reduce((sum, count) => sum + count, 0)
        note(`${accepted} batches accepted`)
        if (accepted < batches.length) throw new Error('no batch of the storm was accepted')
        // Every one that was not stored yet waits in the stream; the duplicates must not hold it up.
        const isStored = async (): Promise<boolean> => await countStored(system, distinctId) === expected
        await waitFor(isStored, { everyMs: 200 })
      }
    }
  }
]

function buildBatch (distinctId: string): string {
  const batch = Array.from({ length: EVENTS_PER_BATCH }, (_, index) => ({
    event: 'sent again', distinct_id: distinctId, uuid: randomUUID(), properties: { index },
    timestamp: new Date().toISOString()
  }))
  return JSON.stringify({ api_key: FAULT_PROJECT_KEY, batch })
}

/** @returns how many of the requests were answered with 200. */
async function sendAgain (
  { system, body, client, stop }: { system: FaultSystem, body: string, client: number, stop: AbortSignal }
): Promise<number> {
  let accepted = 0
  for (let turn = client; !stop.aborted; turn++) {
    const { port } = system.ingest[turn % system.ingest.length]!
    try {
      const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
        method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: AbortSignal.timeout(10_000)
      })
      await response.arrayBuffer()
      if (response.status === 200) accepted++
    } catch {
      // An ingest process may be down; the other one is asked next.
    }
    await delay(50)
  }
  return accepted
}

async function killInTurn (findOwner: () => Promise<SupervisedPart>, options: {
  system: FaultSystem, lastsMs: number
}): Promise<void> {
  const { system, lastsMs } = options
  for (const deadline = performance.now() + lastsMs; performance.now() < deadline;) {
    await (await findOwner()).kill()
    await delay(KILL_PAUSE_MS)
    await system.clickhouse.kill()
    await delay(KILL_PAUSE_MS)
  }
}
