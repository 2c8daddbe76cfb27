/** What a server owes the SDKs that ask for flags (harness-cases.ts), each duty a test. */
import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { PATIENCE_MS, waitFor } from '../../support/wait-for.ts'
import { type Answer, type LossyProxy, startDutyServer, startLossyProxy } from './duty-server.ts'

t.jobs = 8

const server = await startDutyServer(t)
const { key, stack } = server

const identified = { $group_type: 'company', $group_key: 'acme', $group_set: { plan: 'pro' } }
await server.post('/batch/', {
  api_key: key, batch: [{ event: '$groupidentify', distinct_id: 'ann', properties: identified }]
})
const variants = [{ key: 'blue', rollout_percentage: 100 }]
const company = { key: 'plan', value: 'pro', type: 'group', group_type_index: 0 }
for (const [flag, filters] of Object.entries({
  on: { groups: [{}] },
  colour: { groups: [{}], multivariate: { variants }, payloads: { blue: '{"shade":7}' } },
  device: { groups: [{ properties: [{ key: '$device_id', value: 'd7', type: 'person' }] }] },
  member: { aggregation_group_type_index: 0, groups: [{ properties: [company] }] }
})) {
  const headers = { authorization: `Bearer ${stack.personalApiKey}` }
  // A flag of groups is refused until their kind is known.
  await waitFor(async () => (await server.post(`/api/projects/${server.stack.project}/feature_flags/`, { key: flag, filters }, { headers })).status === 201)
}
await waitFor(async () => {
  const answer = await ask({ groups: { company: 'acme' } })
  return Object.keys(answer.body.flags).length === 4 && answer.body.flags.member.enabled === true
})

function duty (title: string, check: (t: Test) => Promise<void>): void {
  void t.test(title, { buffered: true }, check)
}

async function ask (body: object, path = '/flags/?v=2', headers: Record<string, string> = {}): Promise<Answer> {
  return await server.post(path, { token: key, distinct_id: 'ann', ...body }, { headers })
}

/** The stock client behind a proxy that notes what passes. */
async function connect (
  t: Test, options: object = {}, lost: number[] = []
): Promise<{ client: PostHog, asked: () => LossyProxy['passed'] }> {
  const proxy = await startLossyProxy(t, server.url, lost)
  // By default a client gives a flag up after three seconds.
  const patience = { featureFlagsRequestTimeoutMs: PATIENCE_MS }
  const fixed = { host: proxy.url, disableCompression: true, sendFeatureFlagEvent: false, ...patience }
  const client = new PostHog(key, { ...fixed, ...options })
  client.on('error', () => {})
  t.teardown(async () => await client.shutdown())
  return { client, asked: () => proxy.passed.filter(({ path }) => /^\/(flags|decide)/.test(path)) }
}

duty('flags: properties of the person that a request brings decide, $device_id too', async (t) => {
  const request = { groups: {}, group_properties: {}, geoip_disable: true, flag_keys_to_evaluate: ['device'] }
  const flagOf = async (device: string): Promise<boolean> =>
    (await ask({ ...request, person_properties: { $device_id: device } })).body.flags.device.enabled
  t.same([await flagOf('d7'), await flagOf('d8')], [true, false])
})

duty('flags: version 2 of the answer has the details of each flag', async (t) => {
  const { status, body } = await ask({}, '/flags/?v=2')
  t.equal(status, 200)
  t.match(body, {
    errorsWhileComputingFlags: false,
    requestId: String,
    flags: { colour: { key: 'colour', enabled: true, variant: 'blue', reason: { code: String }, metadata: { payload: '{"shade":7}' } } }
  })
})

duty('flags: all that posthog-node asks for is at /flags, nothing at /decide', async (t) => {
  const { client, asked } = await connect(t)
  t.equal(await client.getFeatureFlag('colour', 'bob'), 'blue')
  t.same(asked().map(({ path, status }) => [path.split('?')[0]?.replace(/\/$/, ''), status]), [['/flags', 200]])
})

duty('flags: the key in the body is enough, no header is asked for', async (t) => {
  t.match(await ask({}), { status: 200, body: { flags: { on: { enabled: true } } } })
  t.equal((await ask({}, '/flags/?v=2', { authorization: 'Bearer phc_nobody' })).status, 200, 'and one is not looked at')
})

duty('flags: the key of the body says whose flags, and one that nobody has is 401', async (t) => {
  t.match(await ask({ token: 'phc_nobody' }), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await ask({ token: undefined, api_key: key }), { status: 200, body: { flags: { on: { enabled: true } } } })
})

duty('flags: groups and their properties in a request decide flags of groups', async (t) => {
  const flagOf = async (body: object): Promise<boolean> => (await ask(body)).body.flags.member.enabled
  t.same([
    await flagOf({ groups: { company: 'acme' } }),
    await flagOf({ groups: { company: 'other' }, group_properties: { company: { plan: 'pro' } } }),
    await flagOf({ groups: { company: 'acme' }, group_properties: { company: { plan: 'free' } } })
  ], [true, true, false])
})

duty('flags: no groups, empty ones and null are the same', async (t) => {
  for (const body of [{}, { groups: {}, group_properties: {} }, { groups: null, group_properties: null }]) {
    t.match(await ask(body), { status: 200, body: { flags: { on: { enabled: true }, member: { enabled: false } } } })
  }
})

for (const [title, body] of [
  ['geoip_disable: false is taken', { geoip_disable: false }], ['geoip_disable may be left out', {}]
] as const) {
  duty(`flags: ${title}, and changes no flag`, async (t) => {
    const [answer, other] = [await ask(body), await ask({ geoip_disable: true })]
    const valuesOf = ({ body }: Answer): unknown[] =>
      Object.values(body.flags).map(({ enabled, variant }: any) => [enabled, variant])
    t.same(valuesOf(answer), valuesOf(other))
  })
}

duty('flags: of the flags that a request names, these alone are answered', async (t) => {
  t.same(Object.keys((await ask({ flag_keys_to_evaluate: ['colour'] })).body.flags), ['colour'])
  t.same((await ask({ flag_keys_to_evaluate: ['nobody'] })).body.flags, {})
})

duty('flags: a client with a personal key gets definitions at its start, and evaluates them without another request', async (t) => {
  const { client, asked } = await connect(t, { personalApiKey: stack.personalApiKey })
  await client.waitForLocalEvaluationReady(PATIENCE_MS)
  t.equal(await client.getFeatureFlag('colour', 'bob', { onlyEvaluateLocally: true }), 'blue')
  t.same(asked().filter(({ path }) => !path.startsWith('/flags/definitions')), [])
})

duty('flags: an event is stored without a question about flags', async (t) => {
  const { client, asked } = await connect(t, { flushAt: 1 })
  client.capture({ distinctId: 'no flags', event: 'order paid' })
  await client.flush()
  t.match(await server.storedOf('no flags'), [{ event: 'order paid' }])
  t.same(asked(), [])
})

duty('flags: the same question twice has the same answer, under ids of its own', async (t) => {
  const { client, asked } = await connect(t)
  t.same([await client.getFeatureFlag('colour', 'bob'), await client.getFeatureFlag('colour', 'bob')], ['blue', 'blue'])
  t.equal(asked().length, 2)
  const [first, second] = [await ask({}), await ask({})]
  t.same(first.body.flags, second.body.flags)
  t.not(first.body.requestId, second.body.requestId)
})

duty('flags: value and payload that the server answers are those that posthog-node returns', async (t) => {
  const { client } = await connect(t)
  t.equal(await client.getFeatureFlag('on', 'bob'), true)
  t.equal(await client.getFeatureFlag('member', 'bob'), false)
  t.same(await client.getFeatureFlagPayload('colour', 'bob'), { shade: 7 })
})

for (const status of [502, 504]) {
  duty(`flags: a question that posthog-node repeats because a proxy said ${status} is answered`, async (t) => {
    const { client, asked } = await connect(t, { featureFlagsRequestMaxRetries: 2, fetchRetryDelay: 20 }, [status])
    t.equal(await client.getFeatureFlag('colour', 'bob'), 'blue')
    t.same(asked().map(({ status }) => status), [status, 200])
  })
}

duty('flags: that a flag was asked for is stored once, with its key and value', async (t) => {
  const { client } = await connect(t, { sendFeatureFlagEvent: true })
  for (let i = 0; i < 2; i++) await client.getFeatureFlag('colour', 'asked')
  await client.flush()
  t.match(await server.storedOf('asked'), {
    length: 1, 0: { event: '$feature_flag_called', properties: { $feature_flag: 'colour', $feature_flag_response: 'blue' } }
  })
})

t.end()
