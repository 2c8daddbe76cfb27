/** Counts of what enforcement did, in the words of the prediction. */
import { generalise } from '../../engines/json-schema/describe-failure.ts'
import type { SchemaPrediction } from '../../api/enforcement/schemas/event-schema.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import type { RulePrediction } from '../../api/enforcement/rules/event-rule.ts'

/** Kinds of failures, names and SDKs that a prediction tells apart; with more, it leaves some out. */
const MAX_GROUPS = 200

/** The kinds of failures of an event, each once: `path keyword`. */
export function kindsOf (failures: readonly SchemaFailure[]): string[] {
  return [...new Set(failures.map(({ path, keyword }) => `${generalise(path)} ${keyword}`))].sort()
}

/** What a schema did with the events of its name. */
export class SchemaCounts {
  events = 0
  failed = 0
  readonly #kinds = new Map<string, number>()
  readonly #libs = new Map<string, { events: number, failed: number }>()

  add (kinds: readonly string[], lib: string): void {
    const failed = kinds.length > 0 ? 1 : 0
    this.events++
    this.failed += failed
    for (const kind of kinds) this.#kinds.set(kind, (this.#kinds.get(kind) ?? 0) + 1)
    const { events = 0, failed: before = 0 } = this.#libs.get(lib) ?? {}
    this.#libs.set(lib, { events: events + 1, failed: before + failed })
  }

  /** @returns what a prediction says otherwise, one line each. */
  compare ({ events, met, failed, complete, failures, libs }: SchemaPrediction): string[] {
    const kinds = new Map(failures.map(({ path, keyword, events }) => [`${path} ${keyword}`, events]))
    const sdks = new Map(libs.map(({ lib, events, failed }) => [lib, `${failed} of ${events}`]))
    const enforced = new Map([...this.#libs].map(([lib, { events, failed }]) => [lib, `${failed} of ${events}`]))
    const unshown = failures.filter(({ samples }) => samples.length === 0)
    const own = { events: this.events, met: this.events - this.failed, failed: this.failed, complete: true }
    return [
      ...compareCounts(own, { events, met, failed, complete }),
      ...compareMaps(this.#kinds, kinds), ...compareMaps(enforced, sdks, 'SDK '),
      ...unshown.map(({ path, keyword }) => `${path} ${keyword}: no event is shown`)
    ]
  }
}

/** What a rule did, alone. */
export class RuleCounts {
  readonly counts = { events: 0, dropped: 0, sampled: 0, changed: 0, without_address: 0 }
  readonly #names = new Map<string, number>()

  add (event: string, fate: 'dropped' | 'sampled' | 'changed' | null, withoutAddress: boolean): void {
    this.counts.events++
    if (fate !== null) this.counts[fate]++
    if (withoutAddress) this.counts.without_address++
    this.#names.set(event, (this.#names.get(event) ?? 0) + 1)
  }

  /** @returns what a prediction says otherwise, one line each. */
  compare ({ matched, complete, names, ...counts }: RulePrediction): string[] {
    const ofCounts = compareCounts({ ...this.counts, complete: true }, { ...counts, complete })
    const { dropped, sampled, changed } = this.counts
    const ofNames = new Map(names.map(({ event, events }) => [event, events]))
    return [
      ...ofCounts, ...compareMaps(this.#names, ofNames),
      ...matched < dropped + sampled + changed ? [`${matched} match, but ${dropped + sampled + changed} are dropped or changed`] : []
    ]
  }
}

function compareCounts<T extends Record<string, unknown>> (enforced: T, predicted: T): string[] {
  return Object.entries(enforced).flatMap(([name, value]) => value === predicted[name] ? [] : [`${name}: ${value} enforced, ${predicted[name]} predicted`])
}

function compareMaps<T> (enforced: ReadonlyMap<string, T>, predicted: ReadonlyMap<string, T>, what = ''): string[] {
  if (enforced.size >= MAX_GROUPS) return []
  return [...new Set([...enforced.keys(), ...predicted.keys()])].sort().flatMap((key) =>
    enforced.get(key) === predicted.get(key) ? [] : [`${what}${key}: ${enforced.get(key) ?? 'none'} enforced, ${predicted.get(key) ?? 'none'} predicted`])
}
