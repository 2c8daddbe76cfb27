/** Whether a flag still does something: from its definition, and from the calls that SDKs report. */
import { MalformedFlagError } from '../../../engines/flags/flag-definition.ts'
import { type ParsedCondition, type ParsedFilters, type ParsedVariant, parseFilters } from '../../../engines/flags/parse-filters.ts'

/** Days without a change, and without a call, after which a flag is stale. */
export const STALE_DAYS = 30
const DAY_MS = 86_400_000

/** What is known of the calls of a flag in the last days, as `$feature_flag_called` reports them. */
export interface FlagCalls {
  calls: number
  /** Epoch milliseconds; null: none. */
  lastMs: number | null
}

export interface FlagStatus {
  status: 'active' | 'stale'
  /** Why it is stale, in a sentence; empty when it is not. */
  reason: string
}

interface Judged {
  filters: unknown
  active: boolean
  updated_at: Date
}

/**
 * Judges a flag. It is stale when nobody has changed it for 30 days, and either everybody gets the same value or no SDK
 * asked for it in these days.
 *
 * @param calls  Null when their absence says nothing: no SDK of the project reports calls, or another flag asks for it.
 * @param options.now  Epoch milliseconds.
 */
export function judgeFlag (flag: Judged, calls: FlagCalls | null, { now }: { now: number }): FlagStatus {
  const days = Math.floor((now - flag.updated_at.getTime()) / DAY_MS)
  if (days < STALE_DAYS) return { status: 'active', reason: '' }
  const value = findOnlyValue(flag)
  if (value !== null) return { status: 'stale', reason: `${describeOnlyValue(flag, value)} for ${days} days` }
  if (calls?.calls === 0) return { status: 'stale', reason: `not called for ${STALE_DAYS} days, unchanged for ${days}` }
  return { status: 'active', reason: '' }
}

function describeOnlyValue ({ active }: Judged, value: string): string {
  if (!active) return 'off for everyone'
  return value === 'true' ? 'on for everyone' : value === 'false' ? 'false for everyone' : `${value} for everyone`
}

/** Stands for a value that depends on who asks. */
const VARIES = null

/**
 * The value that everybody gets whom the flag is about, as text; null when it depends on who asks or cannot be told.
 * Groups count like persons: a flag for all groups has one value, although who is in none gets false.
 */
export function findOnlyValue ({ active, filters }: Pick<Judged, 'active' | 'filters'>): string | null {
  if (!active) return 'false'
  const parsed = readFilters(filters)
  if (parsed === null || hasEarlySteps(parsed)) return VARIES
  const conditions = parsed.conditions.filter(({ rolloutPercentage }) => rolloutPercentage > 0)
  if (conditions.length === 0) return 'false'
  const whole = conditions.findIndex(({ properties, rolloutPercentage: percentage }) =>
    properties.length === 0 && percentage >= 100)
  // With an early exit, who matches an earlier condition but not its rollout never reaches the one for everyone.
  if (whole === -1 || (whole > 0 && parsed.earlyExit)) return VARIES
  const [value, ...others] = conditions.slice(0, whole + 1).map((condition) => valueOf(condition, parsed.variants))
  return others.every((other) => other === value) ? value ?? VARIES : VARIES
}

/** Early access or a holdout, which come before the conditions. */
function hasEarlySteps ({ enrollment, superCondition, holdout }: ParsedFilters): boolean {
  return enrollment || superCondition !== null || (holdout?.percentage ?? 0) > 0
}

function readFilters (filters: unknown): ParsedFilters | null {
  try {
    return parseFilters(filters)
  } catch (error) {
    // Malformed filters have no value that could be told.
    if (error instanceof MalformedFlagError) return null
    throw error
  }
}

/** The value of everybody who matches a condition; null when they are divided among variants. */
function valueOf ({ variant }: ParsedCondition, variants: readonly ParsedVariant[]): string | null {
  if (variants.length === 0) return 'true'
  if (variants.some(({ key }) => key === variant)) return variant
  return variants.find(({ rolloutPercentage }) => rolloutPercentage >= 100)?.key ?? VARIES
}
