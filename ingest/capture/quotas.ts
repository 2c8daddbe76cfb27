/** The quotas of projects, in each ingest process. */
import { HttpError } from '../../engines/errors.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { type ActiveQuota, BURST_SECONDS, type MeasuredUsage, monthOf, nextMonthOf } from '../../schema/project-quotas.ts'

/** Judges requests of projects with a quota. Those without one never come here. */
export interface Quotas {
  /**
   * @returns the share of all distinct ids whose events of this request are stored; 1: all.
   * @throws {HttpError} 429 `throttled` or `quota_exceeded`, with `Retry-After`: nothing of the request was taken.
   */
  admit (projectId: number, quota: ActiveQuota): number
  /** Counts events that were taken of a request, of any project. */
  spend (projectId: number, events: number): void
}

/**
 * Retry-After for clients beyond the monthly quota, in seconds: a quota can be raised any time, and SDKs that honour
 * the header keep their events in memory meanwhile.
 */
const MONTH_RETRY_SECONDS = 60

/** Length and maximum number of the slots of own events; beyond it, the oldest are merged. */
const SLOT_MS = 5000
const MAX_SLOTS = 1000

/** Events that this process took in some seconds. */
interface Slot {
  /** Begin, epoch milliseconds. */
  at: number
  events: number
}

interface State {
  quota: ActiveQuota
  /** Events that may still come this second; below 0 after a large batch. */
  left: number
  filledAt: number
  /** Start of the month that `used` is about. */
  month: number
  /** The usage that `used` began with. */
  usage: MeasuredUsage | null
  /** Events of the month: measured ones, and what this process took since. */
  used: number
  /** What this process took, oldest first; none that are measured, or of an earlier month. */
  slots: Slot[]
}

/**
 * A token bucket of events a second, and the usage of the month: what the pipeline has measured of all processes, and
 * what this process took since. So the month goes on being counted while nothing is measured, by each process for
 * itself, and a quota of which nothing is known refuses nothing.
 *
 * A request is judged by what came before it, never by its own size: no batch is too large ever to be taken.
 *
 * @param now  Epoch milliseconds.
 */
export function createQuotas ({ metrics, now }: { metrics: Metrics, now: () => number }): Quotas {
  const states = new Map<number, State>()
  const refused = { second: 0, month: 0 }
  metrics.countersFrom('quota_refused_requests_total', 'Requests answered with 429 for an exceeded quota, by limit.',
    ['limit'], () => Object.entries(refused).map(([limit, count]) => [{ limit }, count] as const))

  return {
    admit (projectId, quota) {
      const at = now()
      const state = stateOf(states, projectId, { quota, at })
      if (quota.eventsPerMonth !== null && usedOf(state, at) >= quota.eventsPerMonth) {
        if (quota.beyond === 'sample') return quota.sampleRate
        refused.month++
        throw monthExceeded(projectId, at)
      }
      if (quota.eventsPerSecond === null || fill(state, at) > 0) return 1
      if (quota.beyond === 'sample') return quota.sampleRate
      refused.second++
      throw secondExceeded(projectId, Math.max(1, Math.ceil(-state.left / quota.eventsPerSecond)))
    },
    spend (projectId, events) {
      const state = states.get(projectId)
      if (state === undefined || events === 0) return
      const at = now()
      fill(state, at)
      state.left -= events
      // Stored samples do not go into debt, or sampling would last long after the peak.
      if (state.quota.beyond === 'sample') state.left = Math.max(state.left, -(state.quota.burst ?? 0))
      if (state.quota.eventsPerMonth !== null) remember(state, at, events)
    }
  }
}

/** The quota by `MILLRACE_INGEST_RATE_LIMIT` of projects that have none of their own; none for 0. */
export function quotaOfEach (eventsPerSecond: number): ActiveQuota | undefined {
  if (eventsPerSecond === 0) return undefined
  const burst = eventsPerSecond * BURST_SECONDS
  return { eventsPerSecond, burst, eventsPerMonth: null, beyond: 'reject', sampleRate: 1, usage: null }
}

function stateOf (
  states: Map<number, State>, projectId: number, { quota, at }: { quota: ActiveQuota, at: number }
): State {
  let state = states.get(projectId)
  if (state === undefined) {
    states.set(projectId, state = {
      quota, left: quota.burst ?? 0, filledAt: at, month: monthOf(at), usage: null, used: 0, slots: []
    })
  }
  const { eventsPerSecond, burst } = state.quota
  // Another limit begins with a full bucket.
  if (eventsPerSecond !== quota.eventsPerSecond || burst !== quota.burst) state.left = quota.burst ?? 0
  state.quota = quota
  return state
}

/** Fills the bucket. Returns its level. */
function fill (state: State, at: number): number {
  const { eventsPerSecond, burst } = state.quota
  // A clock that was set back fills nothing.
  const added = Math.max(0, at - state.filledAt) / 1000 * (eventsPerSecond ?? 0)
  state.left = Math.min(burst ?? 0, state.left + added)
  state.filledAt = at
  return state.left
}

/** Events of the running month. */
function usedOf (state: State, at: number): number {
  const month = monthOf(at)
  const { usage } = state.quota
  if (usage !== null && usage.countedThrough === state.usage?.countedThrough && month === state.month) return state.used
  if (usage === null && state.usage === null && month === state.month) return state.used
  state.month = month
  state.usage = usage
  const isOfMonth = usage?.monthBegin === month
  const since = isOfMonth ? Math.max(month, usage.countedThrough) : month
  state.slots = state.slots.filter((slot) => slot.at >= since)
  state.used = state.slots.reduce((sum, { events }) => sum + events, isOfMonth ? usage.events : 0)
  return state.used
}

/** Counts what this process took, which is not measured yet. */
function remember (state: State, at: number, events: number): void {
  usedOf(state, at)
  state.used += events
  const begin = at - at % SLOT_MS
  const last = state.slots.at(-1)
  if (last?.at === begin) last.events += events
  else state.slots.push({ at: begin, events })
  if (state.slots.length > MAX_SLOTS) state.slots[1]!.events += state.slots.shift()!.events
}

function secondExceeded (projectId: number, retryAfterSeconds: number): HttpError {
  return new HttpError(429, 'throttled_error', 'throttled',
    `The project exceeded its quota of events per second. Expected available in ${retryAfterSeconds} seconds.`,
    { details: { retryAfterSeconds, projectId } })
}

function monthExceeded (projectId: number, at: number): HttpError {
  const end = nextMonthOf(at)
  const retryAfterSeconds = Math.min(MONTH_RETRY_SECONDS, Math.max(1, Math.ceil((end - at) / 1000)))
  return new HttpError(429, 'throttled_error', 'quota_exceeded',
    `The project has exceeded its monthly quota of events, which resets at ${new Date(end).toISOString()}.`,
    { details: { retryAfterSeconds, projectId } })
}
