import { setTimeout as delay } from 'node:timers/promises'
import type { Fault, FaultContext } from './fault.ts'
import { pickOne } from '../../support/random.ts'
import type { TcpFault, TcpFaultProxy } from '../system/tcp-fault-proxy.ts'

type Server = 'nats' | 'postgres'

const NAMES: Record<Server, string> = { nats: 'nats-server', postgres: 'Postgres' }

/** Pause between two torn connections: long enough to connect again and to have something under way. */
const TEAR_EVERY_MS = 700

/** The network between the tiers and their servers; for that to ClickHouse see `clickhouse-faults.ts`. */
export const NETWORK_FAULTS: readonly Fault[] = (['nats', 'postgres'] as const).flatMap((server) => [
  {
    name: `${server}-reset`,
    what: `connections to ${NAMES[server]} are reset, new ones too`,
    lastsMs: [5000, 1500] as const,
    async inject ({ system }: FaultContext) { return hold(system.proxies[server], 'refuse') }
  },
  {
    name: `${server}-stall`,
    what: `connections to ${NAMES[server]} stay open, but nothing passes`,
    lastsMs: [20_000, 8000] as const,
    async inject ({ system }: FaultContext) { return hold(system.proxies[server], 'stall') }
  },
  {
    name: `${server}-torn`,
    what: `connections to ${NAMES[server]} break in the middle of a request or an answer, again and again`,
    lastsMs: [6000, 2000] as const,
    async inject (context: FaultContext) { return tearAgainAndAgain(context.system.proxies[server], context) }
  }
])

function hold (proxy: TcpFaultProxy, fault: TcpFault): () => Promise<void> {
  proxy.set(fault)
  return async () => proxy.set('pass')
}

function tearAgainAndAgain (proxy: TcpFaultProxy, { random }: FaultContext): () => Promise<void> {
  const stopped = new AbortController()
  const tearing = (async () => {
    while (!stopped.signal.aborted) {
      const before = proxy.broken
      proxy.set(pickOne(['tear requests', 'tear answers'] as const, random))
      const deadline = performance.now() + TEAR_EVERY_MS
      while (proxy.broken === before && performance.now() < deadline) await delay(2)
      proxy.set('pass')
      // Healing only ends the pause early.
      await delay(TEAR_EVERY_MS, undefined, { signal: stopped.signal }).catch(() => {})
    }
  })()
  return async () => {
    stopped.abort()
    await tearing
  }
}
