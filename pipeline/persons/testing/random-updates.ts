import type { MergeUpdate, PersonUpdate } from '../../../schema/wire/persons-update.ts'
import { pickOne, type Random } from '../../../test/support/random.ts'

const ILLEGAL_IDS = ['null', 'Anonymous', '"guest"', ' ', '00000000-0000-0000-0000-000000000000']
const NAMES = ['plan', 'name', '__proto__', 'nested', 'nul\0', 'utm "source"', 'ünïcode', 'constructor', '$initial_utm_source']
const VALUES: unknown[] = [1, -0.5, 'x', 'lone \ud800', '', true, null, [], { a: { b: [1, 2] } }, ['q', { z: 1, a: 2 }]]

/**
 * A sequence of updates of one project over some of 200 ids: few enough per sequence that they meet all the time.
 *
 * Times are in disorder, as those of devices are.
 */
export function randomUpdates (random: Random, projectId: number, count: number): (PersonUpdate | MergeUpdate)[] {
  const ids = Array.from({ length: 2 + Math.floor(random() * 8) }, () =>
    random() < 0.05 ? pickOne(ILLEGAL_IDS, random) : `id-${Math.floor(random() * 200)}`)
  return Array.from({ length: count }, (_, i) => {
    const common = {
      projectId,
      uuid: `01900000-0000-7000-8000-${projectId.toString(16).padStart(8, '0')}${i.toString(16).padStart(4, '0')}`,
      timestamp: Date.UTC(2026, 0) + Math.floor(random() * 1e9),
      distinctId: pickOne(ids, random),
      ...(random() < 0.6 && { set: randomProperties(random) }),
      ...(random() < 0.3 && { setOnce: randomProperties(random) }),
      ...(random() < 0.2 && { unset: [pickOne(NAMES, random), pickOne(NAMES, random)] })
    }
    if (random() < 0.5) return { ...common, kind: 'person', ...(random() < 0.2 && { identify: true }) }
    const how = pickOne(['identify', 'identify', 'alias', 'force'] as const, random)
    return {
      ...common, kind: 'merge', otherDistinctId: pickOne(ids, random), how, ...(how === 'force' && random() < 0.5 && { identify: false })
    }
  })
}

function randomProperties (random: Random): Record<string, unknown> {
  const properties: Record<string, unknown> = {}
  for (let left = Math.floor(random() * 3); left >= 0; left--) {
    // Not an assignment: `__proto__` is among the names.
    Object.defineProperty(properties, pickOne(NAMES, random), {
      value: pickOne(VALUES, random), enumerable: true, configurable: true, writable: true
    })
  }
  return properties
}
