import type { Fault, FaultContext } from './fault.ts'
import { describeFailures } from '../load-ledger.ts'
import { countLivePartitions, findPartitionOwner, PARTITIONS } from '../system/fault-processes.ts'
import { pickOne } from '../../support/random.ts'
import type { SupervisedPart } from '../system/supervise.ts'

type Choose = (context: FaultContext) => SupervisedPart | Promise<SupervisedPart>

const PARTS: readonly [name: string, what: string, choose: Choose][] = [
  ['ingest', 'one of two ingest processes', ({ system, random }) => pickOne(system.ingest, random)],
  ['pipeline', 'a pipeline process that owns a partition', async ({ system, random }) => await findPartitionOwner(system, random)],
  ['clickhouse', 'ClickHouse', ({ system }) => system.clickhouse],
  ['nats', 'nats-server', ({ system }) => system.nats],
  ['postgres', 'Postgres', ({ system }) => system.postgres]
]

/** A tier that is asked to end promises to be gone by then, in milliseconds. */
const MAX_RESTART_MS = 10_000

/** By then, in milliseconds, the other pipeline process has the partitions of a paused one, on a busy machine too. */
const TAKEN_OVER_AFTER_MS = 20_000

/** kill -9 and SIGSTOP of each part, and the polite restart of all tiers. */
export const PROCESS_FAULTS: readonly Fault[] = [
  ...PARTS.flatMap(([name, what, choose]) => [killFault(name, what, choose), pauseFault(name, what, choose)]),
  {
    name: 'rolling-restart',
    what: 'SIGTERM of each ingest and pipeline process, one after the other; no request may fail',
    lastsMs: [0, 0],
    async inject ({ system, ledger, expect }) {
      const phase = ledger.phases.at(-1)
      expect(async () => phase?.retries === 0 ? null : `requests failed: ${phase && describeFailures(phase)}`)
      for (const part of [...system.ingest, ...system.pipeline]) {
        const tookMs = await part.restart()
        expect(async () => tookMs <= MAX_RESTART_MS ? null : `${part.name} took ${Math.round(tookMs)} ms to end`)
      }
      return async () => {}
    }
  }
]

function killFault (name: string, what: string, choose: Choose): Fault {
  return {
    name: `${name}-kill`,
    what: `kill -9 of ${what}`,
    lastsMs: [1000, 500],
    async inject (context) {
      const part = await choose(context)
      context.note(part.name)
      await part.kill()
      // The supervisor heals it.
      return async () => {}
    }
  }
}

function pauseFault (name: string, what: string, choose: Choose): Fault {
  return {
    name: `${name}-pause`,
    what: `SIGSTOP of ${what}, then SIGCONT`,
    // Longer than it takes until another pipeline process takes the partition of the paused one over.
    lastsMs: [30_000, 10_000],
    async inject (context) {
      const part = await choose(context)
      context.note(part.name)
      await part.pause()
      return async () => {
        if (context.lastsMs >= TAKEN_OVER_AFTER_MS) await expectTakeOver(context, part)
        await part.resume()
      }
    }
  }
}

/** A paused owner is only dangerous when it wakes up and another one has its partition. */
async function expectTakeOver ({ system, expect }: FaultContext, paused: SupervisedPart): Promise<void> {
  const other = system.pipeline.find((part) => part !== paused)
  if (other === undefined || !system.pipeline.some((part) => part === paused)) return
  const partitions = await countLivePartitions(other)
  expect(async () => partitions === PARTITIONS ? null : `of ${PARTITIONS} partitions the other process had ${partitions} while one was paused`)
}
