import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { allowOrigin, allowPreflight } from '../../../platform/cross-origin.ts'
import { decodeBody } from '../../../engines/body/decode-body.ts'
import { normaliseContentType } from '../../../engines/body/read-body.ts'
import type { LocateAddress } from '../../../engines/enrichment/geoip.ts'
import type { Metrics } from '../../../platform/metrics.ts'
import { SUPPORTED_COMPRESSION } from '../../../engines/flags/remote-config.ts'
import { chooseAnswer } from './flag-answers.ts'
import { createCircuitBreaker } from './circuit-breaker.ts'
import { computeFlags, type ComputeFlagsDeps } from './compute-flags.ts'
import { detectRuntime } from './detect-runtime.ts'
import { describeFlagEndpoint } from './flag-answer-schemas.ts'
import { addPlace, readBodyObject, readFlagRequest, readToken } from './flag-request.ts'
import { localEvaluationRoutes } from './local-evaluation-routes.ts'
import { ofrepRoutes } from './ofrep-routes.ts'
import type { PersonReader } from './person-reader.ts'
import { resolveProject, type ResolveProjectDeps } from './resolve-project.ts'

export interface DecideOptions extends ResolveProjectDeps {
  persons: PersonReader
  metrics: Metrics
  /** Tells the place of an address; absent: places are unknown. */
  locate?: LocateAddress
  /** Epoch milliseconds. */
  now: () => number
}

/** Maximum bytes of a body, compressed and decompressed. Decoding more would delay all other requests. */
const MAX_BODY_BYTES = 4_194_304

/** For reads of stored persons. SDKs give up after 3 s, and a request may need two reads. */
const CIRCUIT = { failures: 3, timeoutMs: 800, pauseMs: 1000 }

const JSON_TYPE = 'application/json; charset=utf-8'

type Query = Readonly<Record<string, unknown>>

/**
 * The endpoints of flags for SDKs: `/decide`, `/flags`, definitions for local evaluation, and OFREP
 * (`ofrep-routes.ts`).
 * The steps of a `/decide` or `/flags` request:
 *
 * 1. read the request: body, fields (`flag-request.ts`), the project of its key (`resolve-project.ts`)
 * 2. take the flags of that project from memory (`definition-cache.ts`)
 * 3. compute them, with stored properties if an answer depends on them (`compute-flags.ts`)
 * 4. render the answer in the requested version (`flag-answers.ts`)
 *
 * SDKs that evaluate by themselves are served by `local-evaluation-routes.ts`.
 */
export async function decideRoutes (app: FastifyInstance, options: DecideOptions): Promise<void> {
  const { metrics, now } = options
  const failures = metrics.counter('flag_store_failures_total',
    'Failed or timed-out reads of stored persons, whose flags were answered as failed.')
  const guard = createCircuitBreaker({ ...CIRCUIT, now }, (err) => {
    failures.inc()
    app.log.warn({ err }, 'could not read stored persons for flags; flags that need them are marked as failed')
  })
  const deps = { ...options, guard }

  app.addHook('onRequest', (request, reply, done) => {
    allowOrigin(request, reply)
    normaliseContentType(request.headers)
    done()
  })
  app.removeAllContentTypeParsers()
  // SDKs send many content types for the same JSON; the bytes decide.
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_BODY_BYTES }, (request, body, done) => done(null, body))
  for (const endpoint of ['decide', 'flags'] as const) {
    const schema = { tags: ['evaluation of feature flags'], summary: `Evaluate feature flags (${endpoint})` }
    const described = { schema, config: { described: describeFlagEndpoint(endpoint) } }
    app.post(`/${endpoint}`, described, async (request, reply) => await answerFlags(endpoint, request, reply, deps))
    app.get(`/${endpoint}`, HIDDEN, async () => STATIC_ANSWER)
    app.options(`/${endpoint}`, HIDDEN, answerPreflight)
  }
  await app.register(localEvaluationRoutes, options)
  await app.register(ofrepRoutes, deps)
}

/** Used by SDKs only, and not part of the OpenAPI document. */
const HIDDEN = { schema: { hide: true } }

/** The answer to GET, by which SDKs check that the server is there. */
const STATIC_ANSWER = {
  supportedCompression: SUPPORTED_COMPRESSION,
  toolbarParams: {},
  isAuthenticated: false,
  sessionRecording: false
}

async function answerFlags (
  endpoint: 'decide' | 'flags', request: FastifyRequest, reply: FastifyReply, deps: DecideOptions & ComputeFlagsDeps
): Promise<FastifyReply> {
  const query = request.query as Query
  const body = readBodyObject(decode(request, query))
  const token = readToken(body, query)
  const projectId = await resolveProject(token, body.project_id ?? query.project_id, deps)
  const flagRequest = readFlagRequest(body, detectRuntime(body.evaluation_runtime, request.headers))
  const evaluation = await computeFlags({
    set: deps.definitions.get(projectId),
    request: deps.locate === undefined ? flagRequest : addPlace(flagRequest, senderOf(request), deps.locate),
    onlyOverrides: isOn(query.only_use_override_person_properties)
  }, deps)
  const { build, withConfig } = chooseAnswer(endpoint, query)
  const answer = build(evaluation, { token: token ?? '', requestId: crypto.randomUUID(), evaluatedAt: deps.now(), withConfig })
  return await reply.header('content-type', JSON_TYPE).send(answer)
}

/** Ingest, which forwards, says where a request comes from. */
function senderOf ({ headers }: FastifyRequest): { address: string, userAgent: string } {
  const forwarded = headers['x-forwarded-for']
  return { address: typeof forwarded === 'string' ? forwarded.trim() : '', userAgent: headers['user-agent'] ?? '' }
}

function decode (request: FastifyRequest, query: Query): unknown {
  if (!Buffer.isBuffer(request.body)) return {}
  return decodeBody(request.body, {
    contentType: request.headers['content-type'],
    contentEncoding: request.headers['content-encoding'],
    compression: typeof query.compression === 'string' ? query.compression : undefined
  }, MAX_BODY_BYTES, true)
}

function isOn (text: unknown): boolean {
  return text === '' || text === '1' || text === 'true'
}

/** Answers OPTIONS, which browsers send before a request with custom headers. */
async function answerPreflight (request: FastifyRequest, reply: FastifyReply): Promise<void> {
  await allowPreflight(request, reply, 'GET, POST, OPTIONS')
    .header('allow', 'GET, HEAD, POST, OPTIONS')
    .code(204)
    .send()
}
