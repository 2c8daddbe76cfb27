import { buildRemoteConfig, SUPPORTED_COMPRESSION } from '../../../engines/flags/remote-config.ts'
import type { Evaluation } from '../../../engines/flags/evaluate-flags.ts'
import { parseInteger } from '../../http/request-values.ts'

interface AnswerContext {
  token: string
  requestId: string
  /** Unix milliseconds. */
  evaluatedAt: number
  withConfig: boolean
}

export type BuildAnswer = (evaluation: Evaluation, context: AnswerContext) => string | Buffer

const DECIDE = [buildDecideV1, buildDecideV2, buildDecideV3, buildDecideV4]
const FLAGS = [buildFlagsV1, buildFlagsV2]

/**
 * Chooses the version of the answer: the newest one up to the query parameter `v`. Without `v`, `/decide` answers
 * version 1, and `/flags` version 1 with `config`, else version 2 with the remote configuration.
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
  return versions[Math.min(Math.max(asked, 1), versions.length) - 1] ?? buildFlagsV2
}

/** Null for anything but a whole number: an SDK gets its flags in any case. */
function readVersion (text: unknown): number | null {
  const last = Array.isArray(text) ? text.at(-1) : text
  return typeof last === 'string' ? parseInteger(last) ?? null : null
}

/** Fields of every answer of `/decide` (docs/reference/contract/service.md 4.6), with two that only old SDKs expect. */
const DECIDE_FIELDS = {
  config: { enable_collect_everything: true },
  editorParams: {},
  isAuthenticated: false,
  supportedCompression: SUPPORTED_COMPRESSION,
  toolbarParams: {},
  sessionRecording: false
}

/** Version 1: the keys of the flags that are on. */
function buildDecideV1 ({ outcomes, hasErrors }: Evaluation): string {
  const featureFlags = outcomes.filter(({ enabled }) => enabled).map(({ key }) => key)
  return JSON.stringify({ ...DECIDE_FIELDS, featureFlags, ...errorsIfAny(hasErrors) })
}

/** Version 2: a map of the flags that are on. */
function buildDecideV2 ({ outcomes, hasErrors }: Evaluation): string {
  const on = outcomes.filter(({ enabled }) => enabled)
  const featureFlags = Object.fromEntries(on.map(({ key, value }) => [key, value]))
  return JSON.stringify({ ...DECIDE_FIELDS, featureFlags, ...errorsIfAny(hasErrors) })
}

/** Version 3: a map of all computed flags, their payloads, and whether some could not be computed. */
function buildDecideV3 (evaluation: Evaluation, { requestId }: AnswerContext): string {
  return JSON.stringify({ ...DECIDE_FIELDS, ...buildLegacyFlags(evaluation), requestId })
}

/** Version 4: the details of `/flags` version 2, and the remote configuration. */
function buildDecideV4 (evaluation: Evaluation, context: AnswerContext): Buffer {
  return renderDetails(evaluation, context, { ...DECIDE_FIELDS, ...buildRemoteConfig(context.token) })
}

function buildFlagsV1 (evaluation: Evaluation, context: AnswerContext): string {
  return JSON.stringify({
    ...(context.withConfig ? buildRemoteConfig(context.token) : {}),
    ...buildLegacyFlags(evaluation),
    requestId: context.requestId,
    evaluatedAt: context.evaluatedAt
  })
}

/** Version 2 of `/flags`: details of each flag. */
function buildFlagsV2 (evaluation: Evaluation, context: AnswerContext): Buffer {
  return renderDetails(evaluation, context, context.withConfig ? buildRemoteConfig(context.token) : {})
}

/**
 * Copies JSON that was rendered when the flags were compiled: about 25 KB for a hundred flags. Rendering it for each
 * request would cost more than computing the flags, and so would joining it as text, which is encoded afterwards.
 *
 * @param fields  What comes before the flags.
 */
function renderDetails (
  { outcomes, hasErrors }: Evaluation, { requestId, evaluatedAt }: AnswerContext, fields: Record<string, unknown>
): Buffer {
  const head = JSON.stringify({ ...fields, flags: {} }).slice(0, -2)
  const tail = `},"errorsWhileComputingFlags":${hasErrors},"errorComputingFlags":${hasErrors},` +
    `"requestId":"${requestId}","evaluatedAt":${evaluatedAt}}`
  const headBytes = Buffer.byteLength(head)
  const answer = Buffer.allocUnsafe(outcomes.reduce((sum, { detail }) => sum + detail.length, headBytes + tail.length))
  answer.write(head)
  let at = headBytes
  for (const { detail } of outcomes) {
    answer.set(detail, at)
    at += detail.length
  }
  // The tail takes the place of the last comma.
  if (outcomes.length > 0) at--
  return answer.subarray(0, at + answer.write(tail, at))
}

/** Failed flags are omitted: clients then keep the value they had, which false would overwrite. */
function buildLegacyFlags ({ outcomes, hasErrors }: Evaluation): Record<string, unknown> {
  const computed = outcomes.filter(({ failed }) => !failed)
  return {
    featureFlags: Object.fromEntries(computed.map(({ key, value }) => [key, value])),
    featureFlagPayloads: Object.fromEntries(computed
      .filter(({ payload }) => payload !== undefined && payload !== null)
      .map(({ key, payload }) => [key, payload])),
    errorComputingFlags: hasErrors,
    errorsWhileComputingFlags: hasErrors
  }
}

/** Versions 1 and 2 have these fields only when a flag failed, so that clients know that the set is incomplete. */
function errorsIfAny (hasErrors: boolean): Record<string, boolean> {
  return hasErrors ? { errorComputingFlags: true, errorsWhileComputingFlags: true } : {}
}
