/** What people say about definitions. */
import t from 'tap'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createUser } from '../projects/users.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'

const shared = await createTestApi(t)

async function insert (api: TestApi, kind: 'event' | 'property', name: string, columns: object = {}): Promise<string> {
  const row = { project_id: api.projectId, name, ...(kind === 'property' ? { type: 'event' } : {}), ...columns }
  const table = kind === 'event' ? api.sql`event_definitions` : api.sql`property_definitions`
  const [inserted] = await api.sql<{ id: string }[]>`INSERT INTO ${table} ${api.sql(row)} RETURNING id`
  return inserted!.id
}

for (const kind of ['event', 'property'] as const) {
  const path = `~/${kind}_definitions`

  t.test(`${kind}: notes are written, shown, filtered by, and gone with the definition`, async (t) => {
    const api = await shared.inNewProject()
    const id = await insert(api, kind, 'paid')
    await insert(api, kind, 'other')
    const owner = await createUser(api.sql, { email: `${kind}@example.com`, firstName: 'Bo' })
    const refused = await api.call('PATCH', `${path}/${id}`, { owner: owner.id })
    t.match(refused, { status: 400, body: { attr: 'owner' } }, 'nobody learns who has no access to the project')
    const { body: { detail: unknown } } = await api.call('PATCH', `${path}/${id}`, { owner: 2_000_000_000 })
    t.equal(unknown, refused.body.detail, 'nor whether there is such a user')
    const key = { email: owner.email, label: 'notes', scopes: ['*'], expiresAt: null }
    await createPersonalKey(api.sql, { ...key, projectIds: [api.projectId + 1_000_000] })
    t.match(await api.call('PATCH', `${path}/${id}`, { owner: owner.id }), { status: 400 }, 'a key for another project')
    await api.sql`UPDATE users SET has_roles = true WHERE id = ${owner.id}`
    await createPersonalKey(api.sql, { ...key, projectIds: null })
    t.match(await api.call('PATCH', `${path}/${id}`, { owner: owner.id }), { status: 400 }, 'a key of somebody without a role')
    await api.sql`INSERT INTO memberships (user_id, project_id, role) VALUES (${owner.id}, ${api.projectId}, 'viewer')`
    const notes = { description: 'Money came in', owner: owner.id, verified: true, hidden: true }

    const { status, body } = await api.call('PATCH', `${path}/${id}`, notes)

    t.equal(status, 200)
    t.match(body, { description: 'Money came in', owner: { id: owner.id, email: owner.email }, verified: true, hidden: true })
    const names = async (query: string): Promise<string[]> =>
      (await api.call('GET', `${path}?${query}`)).body.results.map(({ name }: { name: string }) => name)
    t.same(await names(''), ['other', 'paid'])
    t.same(await names('exclude_hidden=true'), ['other'])
    t.same(await names('verified=true'), ['paid'])
    t.same(await names('verified=false'), ['other'])
    await api.sql`DELETE FROM memberships WHERE user_id = ${owner.id}`
    t.match(await api.call('PATCH', `${path}/${id}`, { owner: owner.id }), { status: 200 }, 'an owner may stay')
    t.match((await api.call('PATCH', `${path}/${id}`, { owner: null })).body, { owner: null, verified: true })

    t.equal((await api.call('DELETE', `${path}/${id}`)).status, 204)
    const table = kind === 'event' ? api.sql`event_definitions` : api.sql`property_definitions`
    t.match(await api.sql`SELECT description, owner_id, verified, hidden FROM ${table} WHERE name = 'paid' AND project_id = ${api.projectId}`,
      [{ description: '', owner_id: null, verified: false, hidden: false }], 'nothing of it comes back with the next event')
  })

  t.test(`${kind}: refuses what it cannot take, by the name of the field`, async (t) => {
    const api = await shared.inNewProject()
    const id = await insert(api, kind, 'paid')
    const cases: [body: object, attr: string][] = [
      [{ owner: 2_000_000_000 }, 'owner'], [{ owner: 0 }, 'owner'], [{ owner: 'ann' }, 'owner'], [{ description: 'd'.repeat(3001) }, 'description'],
      [{ description: null }, 'description'], [{ verified: 'perhaps' }, 'verified'], [{ hidden: null }, 'hidden']
    ]
    for (const [body, attr] of cases) {
      t.match(await api.call('PATCH', `${path}/${id}`, body), { status: 400, body: { attr } }, `PATCH ${JSON.stringify(body).slice(0, 60)}`)
    }
    t.match((await api.call('GET', `${path}/${id}`)).body, { description: '', owner: null, verified: false })
  })
}
