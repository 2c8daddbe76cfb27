import { randomUUID } from 'node:crypto'
import { type Test } from 'tap'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { publishDeadLetter } from '../../platform/dead-letters/dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { type Stack } from '../start-stack.ts'
import { type ContractSystem } from './contract-client.ts'

/** What the product has beyond the contract: feature flags, dead letters, persons. */
export async function walkBeyondContract (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('Beyond the contract: feature flags, dead letters, persons', async (t) => {
    const filters = { groups: [{ properties: [], rollout_percentage: 100 }], payloads: { true: '{"a": 1}' } }
    const { status, body: { id } } = await client.call(t, 'POST', '~/feature_flags/', { key: 'beyond', filters })
    t.equal(status, 201)
    t.match(await client.call(t, 'GET', '~/feature_flags/?search=beyond'), { status: 200, body: { count: 1 } })
    t.match(await client.call(t, 'GET', `~/feature_flags/${id}/`), { status: 200, body: { key: 'beyond' } })
    t.match(await client.call(t, 'PATCH', `~/feature_flags/${id}/`, { name: 'n' }), { status: 200, body: { version: 2 } })
    t.match(await client.call(t, 'GET', '~/feature_flags/beyond/remote_config/'), { status: 200, body: '{"a": 1}' })
    t.match(await client.call(t, 'DELETE', `~/feature_flags/${id}/`), { status: 204 })

    await plantDeadLetter(stack)
    const [{ id: letter }] = (await client.call(t, 'GET', '~/dead_letters/')).body.results
    t.match(await client.call(t, 'GET', '~/dead_letters/'), { status: 200, body: { results: [{ id: letter }] } })
    t.match(await client.call(t, 'GET', `~/dead_letters/${letter}/`), { status: 200, body: { error: 'planted' } })
    t.match(await client.call(t, 'POST', '~/dead_letters/replay/', { dry_run: true }), { status: 200, body: { matched: 1 } })
    t.match(await client.call(t, 'POST', `~/dead_letters/${letter}/replay/`), { status: 200, body: { replayed: 1 } })

    const person = randomUUID()
    await stack.sql`INSERT INTO persons (project_id, uuid) VALUES (1, ${person})`
    t.match(await client.call(t, 'DELETE', `~/persons/${person}/`), { status: /^20[24]$/ })
  })
}

/** Sets a message aside as the pipeline does, one that comes to nothing when it is replayed. */
async function plantDeadLetter (stack: Stack): Promise<void> {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger })
  await publishDeadLetter(connection, {
    stage: 'persons', reason: 'refused', error: 'planted', subject: 'persons.0', sequence: 1, headers: {},
    body: Buffer.from('{}'), id: randomUUID(), project: 1
  })
  await connection.close()
}
