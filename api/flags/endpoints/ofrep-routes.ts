import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { allowPreflight } from '../../../platform/cross-origin.ts'
import { hasEntityTag } from '../../../engines/body/entity-tag.ts'
import { HttpError } from '../../../engines/errors.ts'
import { decodeBody } from '../../../engines/body/decode-body.ts'
import { isExactNumber } from '../../../engines/body/parse-json.ts'
import type { Outcome } from '../../../engines/flags/flag-outcome.ts'
import { computeFlags, type ComputeFlagsDeps } from './compute-flags.ts'
import { detectRuntime } from './detect-runtime.ts'
import { readBodyObject, readFlagRequest } from './flag-request.ts'
import { resolveProject, type ResolveProjectDeps } from './resolve-project.ts'

/** Maximum bytes of a body after decompression: an evaluation context has some properties. */
const MAX_BODY_BYTES = 1_048_576

const JSON_TYPE = 'application/json; charset=utf-8'

const PATH = '/ofrep/v1/evaluate/flags'

/** Used by clients of OpenFeature, which have the document of the protocol. */
const HIDDEN = { schema: { hide: true } }

type ErrorCode = 'PARSE_ERROR' | 'TARGETING_KEY_MISSING' | 'FLAG_NOT_FOUND' | 'GENERAL'

/**
 * The OpenFeature Remote Evaluation Protocol (docs/reference/contract/sdks.md 2.13), for providers of any language: one
 * flag, or all of them. The project key is the bearer token or `X-API-Key`. Of the context, `targetingKey` is the
 * distinct id; `evaluation_runtime` and the objects `groups` and `group_properties` are those of other SDKs; everything
 * else is a property of the person.
 */
export async function ofrepRoutes (app: FastifyInstance, deps: ComputeFlagsDeps & ResolveProjectDeps): Promise<void> {
  for (const url of [PATH, `${PATH}/:key`]) {
    app.options(url, HIDDEN, async (request, reply) => await allowPreflight(request, reply, 'POST, OPTIONS').code(204).send())
  }
  app.post(`${PATH}/:key`, HIDDEN, async (request, reply) => {
    const { key } = request.params as { key: string }
    const found = await evaluate(request, new Set([key]), deps)
    if ('errorCode' in found) return await reply.code(400).send({ key, ...found })
    const [outcome] = found.outcomes
    if (outcome === undefined) {
      return await reply.code(404).send({ key, errorCode: 'FLAG_NOT_FOUND', errorDetails: `There is no flag ${key}.` })
    }
    return await reply.code(outcome.failed ? 500 : 200).send(describe(outcome))
  })

  app.post(PATH, HIDDEN, async (request, reply) => {
    const found = await evaluate(request, null, deps)
    if ('errorCode' in found) return await reply.code(400).send(found)
    return await sendWithTag(request, reply, JSON.stringify({ flags: found.outcomes.map(describe) }))
  })
}

/** @throws {HttpError} for the key of the project. */
async function evaluate (
  request: FastifyRequest, flagKeys: ReadonlySet<string> | null, deps: ComputeFlagsDeps & ResolveProjectDeps
): Promise<{ outcomes: readonly Outcome[] } | { errorCode: ErrorCode, errorDetails: string }> {
  const projectId = await resolveProject(readKey(request), undefined, deps)
  let context: Readonly<Record<string, unknown>>
  try {
    context = readBodyObject(readBodyObject(decode(request)).context ?? {})
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    return { errorCode: 'PARSE_ERROR', errorDetails: error.detail }
  }
  const { targetingKey, evaluation_runtime: runtime, ...attributes } = context
  if (typeof targetingKey !== 'string' || targetingKey === '') {
    return { errorCode: 'TARGETING_KEY_MISSING', errorDetails: 'context.targetingKey must be a string that is not empty.' }
  }
  let flagRequest: ReturnType<typeof readFlagRequest>
  try {
    flagRequest = readFlagRequest({
      distinct_id: targetingKey, ...divideAttributes(attributes)
    }, detectRuntime(runtime, request.headers))
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    return { errorCode: 'PARSE_ERROR', errorDetails: `${error.attr}: ${error.detail}` }
  }
  const set = deps.definitions.get(projectId)
  return await computeFlags({ set, request: { ...flagRequest, flagKeys }, onlyOverrides: false }, deps)
}

/** Applications have attributes called `groups`, too, such as a list of roles: only an object is that of other SDKs. */
function divideAttributes (attributes: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const isOurs = ([name, value]: [string, unknown]): boolean => (name === 'groups' || name === 'group_properties') &&
    typeof value === 'object' && !Array.isArray(value) && !isExactNumber(value)
  const entries = Object.entries(attributes)
  return {
    ...Object.fromEntries(entries.filter(isOurs)),
    person_properties: Object.fromEntries(entries.filter((entry) => !isOurs(entry)))
  }
}

function readKey ({ headers }: FastifyRequest): string {
  const [, token = ''] = /^Bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '') ?? []
  const key = headers['x-api-key']
  return token || (typeof key === 'string' ? key.trim() : '')
}

function decode ({ body, headers }: FastifyRequest): unknown {
  if (!Buffer.isBuffer(body)) return {}
  return decodeBody(body, { contentType: headers['content-type'], contentEncoding: headers['content-encoding'] }, MAX_BODY_BYTES, true)
}

function describe ({ key, value, variant, enabled, failed, reason, payload }: Outcome): Record<string, unknown> {
  if (failed) return { key, errorCode: 'GENERAL', errorDetails: `The flag could not be computed: ${reason}.` }
  return {
    key,
    value,
    variant: variant ?? (enabled ? 'on' : 'off'),
    reason: reasonOf(reason, variant !== null),
    // Metadata of OpenFeature are flat, so that a payload is text here, as the SDKs of PostHog have it.
    metadata: {
      reason,
      ...(payload !== undefined && payload !== null && { payload: typeof payload === 'string' ? payload : JSON.stringify(payload) })
    }
  }
}

function reasonOf (reason: Outcome['reason'], isVariant: boolean): string {
  if (reason === 'flag_disabled') return 'DISABLED'
  if (reason !== 'condition_match' && reason !== 'super_condition_value' && reason !== 'holdout_condition_value') return 'DEFAULT'
  return isVariant ? 'SPLIT' : 'TARGETING_MATCH'
}

/** Clients that ask for all flags again and again send the tag of those that they have. */
async function sendWithTag (request: FastifyRequest, reply: FastifyReply, answer: string): Promise<FastifyReply> {
  const etag = `"${createHash('sha256').update(answer).digest('base64url').slice(0, 22)}"`
  // So that providers in pages can read it and send it back.
  reply.header('etag', etag).header('access-control-expose-headers', 'ETag')
  if (hasEntityTag(request.headers['if-none-match'], etag)) return await reply.code(304).send()
  return await reply.header('content-type', JSON_TYPE).send(answer)
}
