import { createHash } from 'node:crypto'
import { type FlagSet } from '../../flags/compile/compile-flag-set.ts'
import { describeForSdk } from './describe-for-sdk.ts'

/** The definitions of a project as SDKs that evaluate locally want them. */
export interface LocalEvaluation {
  json: string
  /** Weak: equal definitions have equal ones, on every process. */
  etag: string
}

/**
 * Renders the definitions; once for each set of flags, because SDKs ask every 30 s.
 *
 * @param withCohorts  Send cohorts beside the flags, for SDKs that can evaluate them.
 */
export function renderLocalEvaluation (set: FlagSet, withCohorts: boolean): LocalEvaluation {
  const rendered = renderedBySet.get(set) ?? {}
  renderedBySet.set(set, rendered)
  return (rendered[withCohorts ? 'with' : 'without'] ??= render(set, withCohorts))
}

const renderedBySet = new WeakMap<FlagSet, Partial<Record<'with' | 'without', LocalEvaluation>>>()

function render (set: FlagSet, withCohorts: boolean): LocalEvaluation {
  const json = JSON.stringify(describeForSdk(set, withCohorts))
  return { json, etag: `W/"${createHash('sha256').update(json).digest('base64url').slice(0, 27)}"` }
}
