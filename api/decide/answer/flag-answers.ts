import { type Evaluation } from '../../flags/evaluate-flags.ts'
import { buildRemoteConfig, SUPPORTED_COMPRESSION } from './remote-config.ts'

/** What an answer says besides the flags. */
export interface AnswerContext {
  token: string
  requestId: string
  /** Unix milliseconds. */
  evaluatedAt: number
  /** Merge the remote configuration into the answer. */
  withConfig: boolean
}

/** Fields of every answer of `/decide` (docs/contract/service.md 4.6), and two that old SDKs expect. */
const DECIDE_FIELDS = {
  config: { enable_collect_everything: true },
  editorParams: {},
  isAuthenticated: false,
  supportedCompression: SUPPORTED_COMPRESSION,
  toolbarParams: {},
  sessionRecording: false
}

/** Version 1: the keys of the flags that are on. */
export function buildDecideV1 ({ outcomes, hasErrors }: Evaluation): string {
  const featureFlags = outcomes.filter(({ enabled }) => enabled).map(({ key }) => key)
  return JSON.stringify({ ...DECIDE_FIELDS, featureFlags, ...errorsIfAny(hasErrors) })
}

/** Version 2: a map of the flags that are on. */
export function buildDecideV2 ({ outcomes, hasErrors }: Evaluation): string {
  const featureFlags = toMap(outcomes.filter(({ enabled }) => enabled).map(({ key, value }) => [key, value]))
  return JSON.stringify({ ...DECIDE_FIELDS, featureFlags, ...errorsIfAny(hasErrors) })
}

/** Version 3: a map of all flags, their payloads, and whether some could not be computed. */
export function buildDecideV3 (evaluation: Evaluation, { requestId }: AnswerContext): string {
  return JSON.stringify({ ...DECIDE_FIELDS, ...buildLegacyFlags(evaluation), requestId })
}

/** Version 4 of `/decide`: the details of `/flags` and the configuration. */
export function buildDecideV4 (evaluation: Evaluation, context: AnswerContext): string {
  return mergeJson(JSON.stringify(DECIDE_FIELDS), buildFlagsV2(evaluation, { ...context, withConfig: true }))
}

/** Version 1 of `/flags`. */
export function buildFlagsV1 (evaluation: Evaluation, context: AnswerContext): string {
  return JSON.stringify({
    ...(context.withConfig ? buildRemoteConfig(context.token) : {}),
    ...buildLegacyFlags(evaluation),
    requestId: context.requestId,
    evaluatedAt: context.evaluatedAt
  })
}

/**
 * Version 2 of `/flags`: details of each flag. Put together from JSON that was rendered when the flags were compiled:
 * for a hundred flags it is some 25 KB, and rendering it would cost more than computing it.
 */
export function buildFlagsV2 ({ outcomes, hasErrors }: Evaluation, context: AnswerContext): string {
  let flags = ''
  for (const { detailJson } of outcomes) flags += flags === '' ? detailJson : `,${detailJson}`
  const answer = `{"flags":{${flags}},"errorsWhileComputingFlags":${hasErrors},"errorComputingFlags":${hasErrors},` +
    `"requestId":"${context.requestId}","evaluatedAt":${context.evaluatedAt}}`
  return context.withConfig ? mergeJson(JSON.stringify(buildRemoteConfig(context.token)), answer) : answer
}

/** Failed flags are left out: clients then keep what they had, which "false" would overwrite. */
function buildLegacyFlags ({ outcomes, hasErrors }: Evaluation): Record<string, unknown> {
  const computed = outcomes.filter(({ failed }) => !failed)
  return {
    featureFlags: toMap(computed.map(({ key, value }) => [key, value])),
    featureFlagPayloads: toMap(computed
      .filter(({ payload }) => payload !== undefined && payload !== null)
      .map(({ key, payload }) => [key, payload])),
    errorComputingFlags: hasErrors,
    errorsWhileComputingFlags: hasErrors
  }
}

/** The older versions have no such field; they get it when a set is not complete, so that nobody takes it for one. */
function errorsIfAny (hasErrors: boolean): Record<string, boolean> {
  return hasErrors ? { errorComputingFlags: true, errorsWhileComputingFlags: true } : {}
}

/** Keys are a client's: `__proto__` must be a key like any other. */
function toMap (entries: Array<readonly [string, unknown]>): Record<string, unknown> {
  return Object.fromEntries(entries)
}

/** Joins two non-empty objects of different keys without parsing them. */
function mergeJson (first: string, second: string): string {
  return `${first.slice(0, -1)},${second.slice(1)}`
}
