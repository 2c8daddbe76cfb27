/** What the console believes of answers is what the OpenAPI document says of them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript'
import t from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { KEYWORDS } from '../../console/web/schemas/event-schemas.ts'
import { OPERATORS } from '../../console/web/flags/flag-filters.ts'
import { OBJECT_KEYWORDS } from '../../engines/json-schema/compile-object.ts'
import { VALUE_KEYWORDS } from '../../engines/json-schema/compile-value.ts'
import { PROPERTY_OPERATORS } from '../../engines/operators/property-operators.ts'
import { compile } from '../contract/generated-client.ts'

/** Below the working copy, so that packages and the console are found from there; among what tests leave. */
const FOLDER = path.join(import.meta.dirname, '..', '..', '.tap')

/** Each function compiles when an answer has what the type of the console says. */
const PROGRAM = `
import type { paths } from './openapi.ts'
import type { EventSchema, InferredSchema, Prediction, SchemaCounts, SchemaVersion } from '../../console/web/schemas/event-schemas.ts'
import type { EventRule, RuleCounts, RulePrediction, RuleVersion } from '../../console/web/rules/event-rules.ts'
import type { Quota, Usage } from '../../console/web/quotas/quota.ts'
import type { DeadLetterGroups } from '../../console/web/dead-letters/dead-letters.ts'

type Below<Path extends string> = \`/api/projects/{project_id}/\${Path}\`
type Answer<Path extends string, Method extends string> =
  Below<Path> extends keyof paths ? Method extends keyof paths[Below<Path>]
    ? paths[Below<Path>][Method] extends { responses: { 200: { content: { 'application/json': infer Body } } } } ? Body : 'no answer'
    : 'no method' : 'no path'

export const believed = {
  schema: (answer: Answer<'event_schemas/{id}', 'get'>): EventSchema => answer,
  changed: (answer: Answer<'event_schemas/{id}', 'patch'>): EventSchema => answer,
  versions: (answer: Answer<'event_schemas/{id}/versions', 'get'>): SchemaVersion[] => answer.results,
  schemaCounts: (answer: Answer<'event_schemas/counts', 'get'>): SchemaCounts[] => answer.results,
  check: (answer: Answer<'event_schemas/{id}/check', 'post'>): Prediction => answer,
  infer: (answer: Answer<'event_schemas/infer', 'post'>): InferredSchema => answer,
  rules: (answer: Answer<'rules', 'get'>): EventRule[] => answer.results,
  ruleVersions: (answer: Answer<'rules/{id}/versions', 'get'>): RuleVersion[] => answer.results,
  counts: (answer: Answer<'rules/counts', 'get'>): RuleCounts[] => answer.results,
  ruleCheck: (answer: Answer<'rules/{id}/check', 'post'>): RulePrediction => answer,
  quota: (answer: Answer<'quota', 'get'>): Quota => answer,
  usage: (answer: Answer<'usage', 'get'>): Usage => answer,
  groups: (answer: Answer<'dead_letters/groups', 'get'>): DeadLetterGroups => answer
}
`

t.test('the types of the console fit the OpenAPI document', async (t) => {
  const { call } = await createTestApi(t)
  const { body: document } = await call('GET', '/api/schema')
  await mkdir(FOLDER, { recursive: true })
  const folder = await mkdtemp(path.join(FOLDER, 'answer-types-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const openapi = astToString(await openapiTS(document as OpenAPI3))
  const check = async (text: string): Promise<string[]> => {
    await writeFile(path.join(folder, 'openapi.ts'), text)
    await writeFile(path.join(folder, 'program.ts'), PROGRAM)
    return compile(path.join(folder, 'program.ts'))
  }

  t.same(await check(openapi), [])
  t.ok((await check(openapi.replaceAll('dropped: number', 'dropped: string'))).length > 0, 'it would find another type')
})

t.test('the console has words for every keyword by which an event can fail', async (t) => {
  const onlyBelow = ['properties', 'patternProperties', 'items']
  const failing = [...OBJECT_KEYWORDS, ...Object.keys(VALUE_KEYWORDS), 'anyOf', 'oneOf', 'not', 'false', 'limit'].filter((keyword) => !onlyBelow.includes(keyword))
  t.same(failing.filter((keyword) => KEYWORDS[keyword] === undefined), [])
  t.same(Object.keys(KEYWORDS).filter((keyword) => !failing.includes(keyword)), [])
})

t.test('the console has words for every operator that flags know', async (t) => {
  t.same(Object.keys(OPERATORS), PROPERTY_OPERATORS)
})
