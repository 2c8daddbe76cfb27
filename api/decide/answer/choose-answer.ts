import { type Evaluation } from '../../flags/evaluate-flags.ts'
import { parseInteger } from '../../http/request-validation.ts'
import {
  buildDecideV1, buildDecideV2, buildDecideV3, buildDecideV4, buildFlagsV1, buildFlagsV2, type AnswerContext
} from './flag-answers.ts'

export type BuildAnswer = (evaluation: Evaluation, context: AnswerContext) => string

const DECIDE = [buildDecideV1, buildDecideV2, buildDecideV3, buildDecideV4]
const FLAGS = [buildFlagsV1, buildFlagsV2]

/**
 * Chooses the shape of the answer by the query parameter `v`: the newest known version up to it. `/decide` without
 * one is version 1; `/flags` without one and without `config` is version 2 with the configuration.
 */
export function chooseAnswer (
  endpoint: 'decide' | 'flags', query: Readonly<Record<string, unknown>>
): { build: BuildAnswer, withConfig: boolean } {
  const asked = readVersion(query.v)
  if (endpoint === 'decide') return { build: newestUpTo(DECIDE, asked ?? 1), withConfig: false }
  if (query.v === undefined && query.config === undefined) return { build: buildFlagsV2, withConfig: true }
  return { build: newestUpTo(FLAGS, asked ?? 1), withConfig: query.config === 'true' || query.config === '1' }
}

function newestUpTo (versions: readonly BuildAnswer[], asked: number): BuildAnswer {
  return versions[Math.min(Math.max(asked, 1), versions.length) - 1]!
}

/** What is no whole number is no version: an SDK that asks for one gets flags all the same. */
function readVersion (text: unknown): number | null {
  const last = Array.isArray(text) ? text.at(-1) : text
  return typeof last === 'string' ? parseInteger(last) ?? null : null
}
