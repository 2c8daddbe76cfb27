/** Clients that are built upon posthog-node: language models, and flags of Vercel. Unmodified, to ingest and API. */
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { captureAiGeneration, Prompts } from '@posthog/ai'
import { PostHog } from 'posthog-node'
import t from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { takePublishedEvents } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts'

// Its types lead to sources that our compiler does not take.
const { createPostHogAdapter, getProviderData } = createRequire(import.meta.url)('@flags-sdk/posthog')

const api = await createTestApi(t)
await api.app.listen({ host: '127.0.0.1', port: 0 })
const MILLRACE_API_URL = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`
const [clickhouse, { url, connection }] = await Promise.all([
  createTestClickHouse(t), startTestIngest(t, { MILLRACE_API_URL })
])
// The two tiers have a database each; a client has one key for both.
await api.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${PROJECT_KEY}, ${api.projectId})`
await api.keys.refresh()

for (const enableFullAiCapture of [false, true]) {
  t.test(`@posthog/ai: a generation is stored once, ${enableFullAiCapture ? 'whole' : 'with its usual'} contents`, async (t) => {
    const paths: string[] = []
    const client = new PostHog(PROJECT_KEY, {
      host: url,
      enableFullAiCapture,
      fetch: async (input, init) => {
        paths.push(new URL(input).pathname)
        return await fetch(input, init as RequestInit)
      }
    })

    await captureAiGeneration(client, {
      distinctId: 'ann',
      traceId: 'trace-1',
      provider: 'made-up',
      model: 'made-up-1',
      input: [{ role: 'user', content: 'hello' }],
      output: [{ role: 'assistant', content: 'good morning' }],
      usage: { inputTokens: 3, outputTokens: 2 },
      latency: 0.25
    })
    await client.shutdown()
    const stored = await takePublishedEvents(connection, clickhouse)

    t.same(paths, [enableFullAiCapture ? '/i/v0/ai/batch/' : '/batch/'])
    t.match(stored, [{ event: '$ai_generation', distinct_id: 'ann' }])
    t.equal(stored.length, 1)
    t.match(JSON.parse(stored[0]?.properties ?? '{}'), {
      $ai_trace_id: 'trace-1', $ai_model: 'made-up-1', $ai_provider: 'made-up', $ai_input_tokens: 3, $ai_output_tokens: 2,
      $ai_input: [{ role: 'user', content: 'hello' }], $lib: 'posthog-node'
    })
  })
}

t.test('@posthog/ai: prompts are not served, and its fallback is used', async (t) => {
  const prompts = new Prompts({ personalApiKey: api.key, projectApiKey: PROJECT_KEY, host: url })

  t.match(await prompts.get('greeting', { fallback: 'Say hello.' }), { source: 'code_fallback', prompt: 'Say hello.' })
})

t.test('@flags-sdk/posthog: flags, variants and payloads, and the list of flags for its explorer', async (t) => {
  const variants = [{ key: 'blue', rollout_percentage: 100 }]
  for (const [key, filters] of Object.entries({
    beta: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] },
    colour: { groups: [{}], multivariate: { variants }, payloads: { blue: '{"shade":7}' } }
  })) t.match(await api.call('POST', '~/feature_flags', { key, name: `Flag ${key}`, filters }), { status: 201 })
  const postHogOptions = { host: url, flushInterval: 0, featureFlagsRequestTimeoutMs: PATIENCE_MS }
  const adapter = createPostHogAdapter({ postHogKey: PROJECT_KEY, postHogOptions })
  const decide = async (key: string, decision: { decide: (asked: object) => unknown }): Promise<unknown> =>
    await decision.decide({ key, entities: { distinctId: 'ann' }, headers: new Headers() })

  await waitFor(async () => await decide('colour', adapter.featureFlagValue()) === 'blue')
  t.equal(await decide('beta', adapter.isFeatureEnabled()), false)
  t.equal(await decide('beta', adapter.isFeatureEnabled({ personProperties: { plan: 'pro' } })), true)
  t.same(await decide('colour', adapter.featureFlagPayload((payload: unknown) => payload)), { shade: 7 })
  const explored = { personalApiKey: api.key, projectId: String(api.projectId), appHost: url }
  const { definitions, hints } = await getProviderData(explored)
  t.same(hints, [])
  t.match(definitions, { beta: { description: 'Flag beta' }, colour: { options: [{ value: { shade: 7 }, label: 'blue' }] } })
})

t.end()
