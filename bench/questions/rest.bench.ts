import { setTimeout as delay } from 'node:timers/promises'
import { prepareLoad } from '../load/load-generator.ts'
import type { BenchContext, Figure, Question } from '../question.ts'
import { countEvents, cpuBetween, readTiers, type Tier, waitUntilVisible } from '../read-stack.ts'

const EVENTS_PER_SECOND = 20_000
const EVENTS_PER_REQUEST = 100

/** Time until what the start left behind is done, and until a load has warmed up compilers, in milliseconds. */
const SETTLE_MS = 10_000

/** What the system costs by being there: CPU of each tier at rest, and beside it under a steady load. */
export const rest: Question = {
  name: 'rest',
  asks: `CPU of each tier over a minute, at rest and at ${EVENTS_PER_SECOND} events/s`,
  isLong: true,
  async answer (context): Promise<Figure[]> {
    const seconds = context.quick ? 20 : 60
    await delay(SETTLE_MS)
    const resting = await measure(context, seconds)
    const loaded = await measureLoaded(context, seconds)
    return [...toFigures('at rest', resting), ...toFigures('under load', loaded)]
  }
}

/** @returns percent of one core, by tier. */
async function measure ({ stack }: BenchContext, seconds: number): Promise<Record<Tier, number>> {
  const [before, begunAt] = [readTiers(stack.supervisor.pid as number), performance.now()]
  await delay(seconds * 1000)
  const spent = cpuBetween(before, readTiers(stack.supervisor.pid as number))
  const elapsedUs = (performance.now() - begunAt) * 1000
  const percent = Object.entries(spent).map(([tier, us]) => [tier, us / elapsedUs * 100])
  return Object.fromEntries(percent) as Record<Tier, number>
}

function toFigures (when: string, percent: Record<Tier, number>): Figure[] {
  const all = Object.values(percent).reduce((sum, value) => sum + value, 0)
  return [...Object.entries(percent), ['all', all] as const]
    .map(([tier, value]) => ({ name: `${tier} ${when}`, value, unit: '% of a core' }))
}

async function measureLoaded (context: BenchContext, seconds: number): Promise<Record<Tier, number>> {
  const { stack, port } = context
  const requests = EVENTS_PER_SECOND / EVENTS_PER_REQUEST * (seconds + 2 * SETTLE_MS / 1000)
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: 78, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: 16, gzip: true, ratePerSecond: EVENTS_PER_SECOND / EVENTS_PER_REQUEST
  })
  const before = await countEvents(stack)
  const running = load.run()
  await delay(SETTLE_MS)
  const percent = await measure(context, seconds)
  const { failed } = await running
  if (failed > 0) throw new Error(`${failed} requests failed`)
  await waitUntilVisible(stack, before, requests * EVENTS_PER_REQUEST)
  return percent
}
