/**
 * Changes properties by the time of their events: of an import, which comes in any order and beside live events, the
 * latest value stays. Times are kept for values of historical events, and of live ones that are late. Any other value
 * is of a live event, and newer than history.
 */
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import type { MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'
import { changeProperties } from './change-properties.ts'
import { type Properties, type PropertyOwner, putProperty } from './persons-state.ts'

/** The value of a live event that is older may be older than one of history. */
export const LATE_MS = 86_400_000

/**
 * Applies the part of a change that is newer than the stored values. A forced merge always wins: an import of
 * persons sends their present state.
 */
export function changeByTime (owner: PropertyOwner, update: PersonUpdate | MergeUpdate): 'done' | 'too_large' {
  const { timestamp, receivedAt = Date.now(), byTime = false, set = {}, setOnce = {}, unset = [] } = update
  const isLatest = update.kind === 'merge' && update.how === 'force'
  const isTimed = !isLatest && (byTime || timestamp < receivedAt - LATE_MS)
  if (owner.times === undefined && !isTimed) return changeProperties(owner, update)
  const times = owner.times ??= new Map()
  const isNewer = (name: string, value?: unknown): boolean => {
    if (isLatest || !Object.hasOwn(owner.properties, name)) return true
    const known = times.get(name)
    // Of live events the one that comes later is the newer one.
    if (!byTime) return known === undefined || timestamp >= known
    return known !== undefined && isLater([timestamp, value], [known, owner.properties[name]])
  }
  const change = {
    set: Object.fromEntries(Object.entries(set).filter(([name, value]) => isNewer(name, value))),
    setOnce,
    unset: unset.filter((name) => isNewer(name))
  }
  const firsts = Object.keys(setOnce).filter((name) => !Object.hasOwn(owner.properties, name))
  if (changeProperties(owner, change) === 'too_large') return 'too_large'
  for (const name of [...firsts, ...Object.keys(change.set)]) {
    if (!isLatest && (isTimed || times.has(name))) times.set(name, byTime ? timestamp : -timestamp)
    else times.delete(name)
  }
  for (const name of change.unset) times.delete(name)
  owner.isRetimed = true
  return 'done'
}

/** Of two values at once the same one counts as later, in whatever order they come. */
function isLater ([time, value]: [number, unknown], [known, there]: [number, unknown]): boolean {
  const [at, before] = [Math.abs(time), Math.abs(known)]
  return at > before || (at === before && value !== undefined && stringifyJson(value) > stringifyJson(there))
}

/** Before two persons become one: of two values with times the later one stays. */
export function uniteTimes (target: PropertyOwner, source: PropertyOwner): void {
  if (source.times === undefined) return
  const times = target.times ??= new Map()
  const set: Properties = {}
  const taken = [...source.times].filter(([name, time]) => {
    const own = times.get(name)
    if (own === undefined) return !Object.hasOwn(target.properties, name)
    // Of two live ones that of the target stays, as ever.
    const isLive = time < 0 && own < 0
    if (isLive || !isLater([time, source.properties[name]], [own, target.properties[name]])) return false
    putProperty(set, name, source.properties[name])
    return true
  })
  changeProperties(target, { set })
  for (const [name, time] of taken) times.set(name, time)
}
