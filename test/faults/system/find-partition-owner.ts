import { waitFor } from '../../support/wait-for.ts'
import { pickOne, type Random } from '../../support/random.ts'
import { type TierPart } from './start-fault-tiers.ts'
import { type FaultSystem } from './start-fault-system.ts'

interface Health {
  parts: { name: string, phase?: string }[]
}

/** A pipeline process that writes a partition of live events at the moment. */
export async function findPartitionOwner ({ pipeline }: Pick<FaultSystem, 'pipeline'>, random: Random): Promise<TierPart> {
  return await waitFor(async () => {
    const partitions = await Promise.all(pipeline.map(countLivePartitions))
    const owners = pipeline.filter((_, index) => (partitions[index] ?? 0) > 0)
    if (owners.length === 0) throw new Error('no process owns a partition')
    return pickOne(owners, random)
  }, { timeoutMs: 30_000, everyMs: 200 })
}

/** Partitions of live events that a pipeline process writes; 0 when it does not answer. */
export async function countLivePartitions ({ port }: { port: number }): Promise<number> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/_health`, { signal: AbortSignal.timeout(2000) })
    const { parts } = await response.json() as Health
    return parts.filter(({ name, phase }) => name.startsWith('partition live.') && phase === 'running').length
  } catch {
    // Away or paused.
    return 0
  }
}
