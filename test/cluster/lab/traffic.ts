/** The events that the walk over the cluster sends, and how many of them ingest confirmed. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { LabProduct } from './open-product.ts'

const EVENTS = ['visited', 'signed up', 'paid']
const BATCH = 50

export interface Traffic {
  /** Events that ingest confirmed and nobody deleted. */
  acknowledged: number
  send (count: number): Promise<void>
  /** Sends until stopped. */
  start (): { stop: () => Promise<void> }
}

export function createTraffic (product: LabProduct): Traffic {
  let index = 0
  const traffic: Traffic = {
    acknowledged: 0,
    async send (count) {
      for (let left = count; left > 0; left -= BATCH) {
        const batch = Array.from({ length: Math.min(BATCH, left) }, () => createEvent(index++))
        await product.send(batch)
        traffic.acknowledged += batch.length
      }
    },
    start () {
      const stopped = new AbortController()
      const sending = (async () => {
        while (!stopped.signal.aborted) {
          await traffic.send(BATCH)
          await delay(50)
        }
      })()
      return {
        async stop () {
          stopped.abort()
          await sending
        }
      }
    }
  }
  return traffic
}

function createEvent (index: number): Record<string, unknown> {
  const name = index % 5 === 0 ? { $set: { plan: index % 2 === 0 ? 'free' : 'paid' } } : {}
  return {
    event: EVENTS[index % EVENTS.length],
    distinct_id: `person ${index % 200}`,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
    properties: { index, amount: index % 17, ...name }
  }
}
