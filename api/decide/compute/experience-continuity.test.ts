import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { addFlags, addPerson, ask, createTestDecide, type TestDecide } from '../testing/create-test-decide.ts'

const STICKY = { key: 'sticky', filters: { groups: [{ rollout_percentage: 50 }] }, ensure_experience_continuity: true }
const PLAIN = { key: 'plain', filters: { groups: [{ rollout_percentage: 50 }] } }

async function valueOf (decide: TestDecide, distinctId: string, anonymous?: string): Promise<boolean> {
  const { body } = await ask(decide, '/flags/?v=2', { distinct_id: distinctId, $anon_distinct_id: anonymous })
  if (body.errorsWhileComputingFlags !== false) throw new Error(JSON.stringify(body))
  return body.flags.sticky.enabled
}

/** A user and an anonymous id whose own values differ, so that sticking shows. */
async function findPair (
  decide: TestDecide, suffix: string
): Promise<{ user: string, anonymous: string, value: boolean }> {
  const user = `user-${suffix}`
  const own = await valueOf(decide, user)
  for (let i = 0; ; i++) {
    const anonymous = `anon-${suffix}-${i}`
    if (await valueOf(decide, anonymous) !== own) return { user, anonymous, value: !own }
  }
}

const shared = await createTestDecide(t)

t.test('who is identified keeps the value of the anonymous user, also where nobody tells the anonymous id', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY, PLAIN])
  const { user, anonymous, value } = await findPair(decide, 'a')

  t.equal(await valueOf(decide, user, anonymous), value)
  t.equal(await valueOf(decide, user), value, 'a server that only knows the user agrees')
  t.equal(await valueOf(decide, user, 'another-browser'), value, 'the first one stays')
  const kept = await decide.sql`SELECT feature_flag_key, hash_key FROM flag_hash_keys WHERE project_id = ${decide.projectId}`
  t.same(kept, [{ feature_flag_key: 'sticky', hash_key: anonymous }])
})

t.test('it is written once', async (t) => {
  const decide = await createTestDecide(t)
  await addFlags(decide, [STICKY])
  const { user, anonymous } = await findPair(decide, 'a')

  await valueOf(decide, user, anonymous)
  decide.reads.facts = 0
  for (let i = 0; i < 5; i++) await valueOf(decide, user, anonymous)

  t.same(decide.reads, { facts: 5, hashKeys: 1 })
})

t.test('two browsers that identify one user at the same time get one value', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  for (let round = 0; round < 10; round++) {
    const user = `user-${round}`
    const answers = await Promise.all(Array.from({ length: 6 }, async (_, i) => await valueOf(decide, user, `anon-${round}-${i}`)))
    t.equal(new Set(answers).size, 1)
  }
})

t.test('it survives the merge of the two persons, from all of their ids', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  const { user, anonymous, value } = await findPair(decide, 'a')
  const anonymousPerson = await addPerson(decide, [anonymous])
  const person = await addPerson(decide, [user, 'user-a-old'])
  await valueOf(decide, user, anonymous)

  await decide.sql`UPDATE person_distinct_ids SET person_id = ${person} WHERE person_id = ${anonymousPerson}`
  await decide.sql`DELETE FROM persons WHERE id = ${anonymousPerson}`

  for (const id of [user, anonymous, 'user-a-old']) t.equal(await valueOf(decide, id), value, id)
})

t.test('it survives kill -9 of the process that answered', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  const { user, anonymous, value } = await findPair(decide, 'a')

  const first = await startApi(t, decide.databaseUrl)
  t.equal(await valueOf({ ...decide, url: first.url }, user, anonymous), value)
  first.process.kill('SIGKILL')
  await once(first.process, 'exit')
  const second = await startApi(t, decide.databaseUrl)

  t.equal(await valueOf({ ...decide, url: second.url }, user), value)
})

/** Starts the API as a process of its own; it listens when this returns. */
async function startApi (t: Test, databaseUrl: string): Promise<{ process: ChildProcess, url: string }> {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, '..', '..', 'main.ts')], {
    env: { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: 'http://127.0.0.1:9/none', MILLRACE_API_PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  for await (const line of createInterface({ input: child.stdout })) {
    const { address } = JSON.parse(line) as { address?: string }
    if (address === undefined) continue
    child.stdout.resume()
    return { process: child, url: address }
  }
  throw new Error('the API did not start')
}
