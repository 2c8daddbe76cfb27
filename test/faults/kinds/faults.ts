import { CAPACITY_FAULTS } from './capacity-faults.ts'
import { CLICKHOUSE_FAULTS } from './clickhouse-faults.ts'
import { CLOCK_FAULTS } from './clock-faults.ts'
import { DEEP_FAULTS } from './deep-faults.ts'
import { EVENT_FAULTS } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { NAME_FAULTS } from './name-faults.ts'
import { NETWORK_FAULTS } from './network-faults.ts'
import { OUTAGE_FAULTS } from './outage-faults.ts'
import { POWER_FAULTS } from './power-faults.ts'
import { PROCESS_FAULTS } from './process-faults.ts'
import { STORM_FAULTS } from './storm-faults.ts'
import { shuffle, type Random } from '../../support/random.ts'

const SINGLE_FAULTS: readonly Fault[] = [
  ...PROCESS_FAULTS, ...OUTAGE_FAULTS, ...NETWORK_FAULTS, ...CLICKHOUSE_FAULTS, ...CAPACITY_FAULTS, ...EVENT_FAULTS,
  ...CLOCK_FAULTS, ...POWER_FAULTS, ...STORM_FAULTS,
  ...NAME_FAULTS, ...DEEP_FAULTS
]

/** What may come together: short faults that do not restart or hold what another one wants to hit. */
const IN_PAIRS: readonly string[] = [
  'ingest-kill', 'pipeline-kill', 'clickhouse-kill', 'nats-kill', 'postgres-kill', 'nats-reset', 'nats-torn',
  'postgres-torn', 'clickhouse-busy', 'clickhouse-lost-answer', 'clickhouse-reset', 'stream-full', 'poisoned-message',
  'clock-back', 'failing-view'
]

/** Two of one kind would take each other's switch, or one would need what the other takes away. */
const KINDS: readonly RegExp[] = [/^clickhouse-(?!kill)/, /^(nats|stream|poisoned)-/]

/** Every fault, by kind. */
export const FAULTS: readonly Fault[] = [
  ...SINGLE_FAULTS,
  {
    name: 'two-at-once',
    what: 'two of the short faults at the same time',
    lastsMs: [4000, 2500],
    async inject (context) {
      const [first, second] = choosePair(context.random)
      context.note(`${first.name} and ${second.name}`)
      const heals = [await first.inject(context), await second.inject(context)]
      return async () => { for (const heal of heals) await heal() }
    }
  }
]

function choosePair (random: Random): [Fault, Fault] {
  const [first, ...others] = shuffle(SINGLE_FAULTS.filter(({ name }) => IN_PAIRS.includes(name)), random)
  const second = others.find(({ name }) => !KINDS.some((kind) => kind.test(name) && kind.test(first?.name ?? '')))
  if (first === undefined || second === undefined) throw new Error('there are no faults to pair')
  return [first, second]
}
