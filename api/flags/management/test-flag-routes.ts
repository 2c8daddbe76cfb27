import type { FastifyInstance } from 'fastify'
import { HttpError, invalidField } from '../../../engines/errors.ts'
import { withTimeout } from '../../../platform/intervals.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { allowsScope } from '../../../schema/scopes.ts'
import { buildSubject, queryFactsOf, selectFlags } from '../endpoints/compute-flags.ts'
import { type FlagRequest, readFlagRequest } from '../endpoints/flag-request.ts'
import { createPersonReader, type PersonReader } from '../endpoints/person-reader.ts'
import { compileFlagSet, evaluateFlags, type FlagSet } from '../../../engines/flags/evaluate-flags.ts'
import { explainFlag, type FlagExplanation } from '../../../engines/flags/explain-flag.ts'
import { MalformedFlagError, type ProjectDefinitions } from '../../../engines/flags/flag-definition.ts'
import type { StoredFacts, Subject } from '../../../engines/flags/subject.ts'
import { orNotFound } from '../../http/answer-errors.ts'
import { bodyOf, optional } from '../../http/json-schema.ts'
import { routesOf } from '../../http/routes.ts'
import { refuseAddresses } from '../../people/mask-mails.ts'
import { featureFlagFieldsSchema, NEW_FLAG, type NewFeatureFlag } from './feature-flag.ts'
import { loadDefinitions } from './load-definitions.ts'
import { validateFlag } from './validate-flag.ts'

const READ_TIMEOUT_MS = 3000

const freeObject = { type: 'object', additionalProperties: true } as const

const testBody = bodyOf({
  distinct_id: { type: 'string', minLength: 1, description: 'Distinct id to evaluate the flags for.' },
  device_id: { type: 'string', description: 'For flags that hash device ids.' },
  groups: { ...freeObject, description: 'Group key by group type, as SDKs send it.' },
  person_properties: { ...freeObject, description: 'As sent with a request; they override stored properties.' },
  group_properties: { ...freeObject, description: 'The same for groups, by group type.' },
  flag_keys: { type: 'array', items: { type: 'string' }, maxItems: 1000, description: 'Only these flags. Default: all.' },
  draft: {
    ...featureFlagFieldsSchema, required: ['key'],
    description: 'An unsaved flag, with the fields of a feature flag; it replaces the flag with the same key.'
  }
}, 'distinct_id')

const explained = optional({
  results: {
    type: 'array',
    items: {
      type: 'object',
      additionalProperties: true,
      description: 'key, active, value (as /flags answers it), failed, payload, reason, and each condition: its ' +
        'result, its filters with the value seen and where it came from (sent, stored, flag, missing), and the place ' +
        'of the identifier in the rollout and among the variants, in percent.'
    }
  }
})

/**
 * Computes flags for somebody, and says why: by the code that answers `/flags`, with the flags as they are stored at
 * this moment. Nothing is counted, and no hash key is stored.
 */
export async function testFlagRoutes (
  app: FastifyInstance, { sql, now }: { sql: Sql, now: () => number }
): Promise<void> {
  const persons = createPersonReader(sql)

  routesOf(app, { tag: 'feature flags', object: 'feature_flag' }).post('/test', {
    scope: 'feature_flag:read', config: { recorded: 'persons' },
    summary: 'Test feature flags for a distinct id',
    description: 'Every flag, condition and filter, with the value it evaluated and the source of that value. ' +
      "Stored values are read for keys with the scope 'person:read' only.",
    body: testBody, answer: explained
  }, async ({ body: { draft, ...asked } }, access) => {
    const { projectId, scopes } = access
    refuseAddresses(access, asked)
    const definitions = orNotFound(await loadDefinitions(sql, projectId))
    const set = compileFlagSet(draft === undefined ? definitions : withDraft(definitions, draft))
    return { results: await testFlags({ set, request: readFlagRequest({ ...asked }, 'all'), scopes }, { persons, now }) }
  })
}

interface TestedRequest {
  set: FlagSet
  request: FlagRequest
  scopes: readonly string[]
}

async function testFlags (
  { set, request, scopes }: TestedRequest, { persons, now }: { persons: PersonReader, now: () => number }
): Promise<FlagExplanation[]> {
  const subject = buildSubject(set, request, now())
  const withStoredValues = allowsScope(scopes, 'person:read')
  // Whether a condition holds says as much as the value, condition by condition.
  subject.stored = withStoredValues ? await readFacts(set, subject, persons) : null
  const { outcomes } = await evaluateFlags(set, subject, selectFlags(set, request), async () => null)
  return outcomes.map((outcome) => explainFlag(set, subject, outcome, { withStoredValues }))
}

async function readFacts (set: FlagSet, subject: Subject, persons: PersonReader): Promise<StoredFacts> {
  const { answer, cancel } = persons.readForFlags(queryFactsOf(set, subject))
  try {
    return await withTimeout(READ_TIMEOUT_MS, answer)
  } catch (cause) {
    cancel()
    throw new HttpError(503, 'server_error', 'database_unavailable', 'The stored properties cannot be read at the moment.', { cause })
  }
}

/** @throws {HttpError} 400 for a draft that could not be saved, with the field in `attr`. */
function withDraft (definitions: ProjectDefinitions, draft: NewFeatureFlag): ProjectDefinitions {
  const stored = definitions.flags.find(({ key }) => key === draft.key)
  const flag = { ...NEW_FLAG, ...draft, id: stored?.id ?? NEW_FLAG.id }
  try {
    validateFlag(flag, definitions)
  } catch (error) {
    if (!(error instanceof MalformedFlagError)) throw error
    throw invalidField(`draft__${error.attr}`, error.message, error.code, error)
  }
  return { ...definitions, flags: [...definitions.flags.filter((each) => each !== stored), flag] }
}
