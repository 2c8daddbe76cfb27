/** People: invitations, passwords and their limits, roles, and what ends with a person. */
import t, { type Test } from 'tap'
import { hashPersonalKey } from '../../schema/key-text.ts'
import { ROLES } from '../../schema/roles.ts'
import { createSessions } from '../../console/server/sessions.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { admitIdentity } from './admit-identity.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'

let time = Date.now()
const whole = await createTestApi(t, { now: () => time })
const PASSWORD = 'correct horse battery'

interface Client { cookie: string, call: (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object) => Promise<{ status: number, body: any }> }

async function send (
  api: TestApi, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, { cookie, body, address }: { cookie?: string, body?: object, address?: string } = {}
): Promise<{ status: number, body: any, cookie: string | undefined, retryAfter: number }> {
  const response = await api.app.inject({
    method,
    url,
    headers: {
      'millrace-console': '1', 'sec-fetch-site': 'same-origin',
      ...cookie === undefined ? {} : { cookie }, ...address === undefined ? {} : { 'x-forwarded-for': address }
    },
    ...body === undefined ? {} : { payload: body }
  })
  const set = [response.headers['set-cookie']].flat().find((text) => text?.startsWith('millrace_session='))
  return { status: response.statusCode, body: response.body === '' ? undefined : JSON.parse(response.body), cookie: set?.split(';')[0], retryAfter: Number(response.headers['retry-after']) }
}

async function invite (api: TestApi, email: string, roles: object[]): Promise<{ token: string, id: number }> {
  const { status, body } = await api.call('POST', '/api/invitations', { email, first_name: email.split('@')[0], roles })
  if (status !== 201) throw new Error(JSON.stringify(body))
  return { token: String(/#invitation=([\w-]{43})$/.exec(body.link)?.[1]), id: body.user.id }
}

async function logIn (api: TestApi, body: object): Promise<Client> {
  const { status, cookie = '', body: answer } = await send(api, 'POST', '/console/session', { body })
  if (status !== 200) throw new Error(JSON.stringify(answer))
  return { cookie, call: async (method, url, body) => await send(api, method, url.replace(/^~/, `/api/projects/${api.projectId}`), { cookie, ...body === undefined ? {} : { body } }) }
}

async function joinAs (api: TestApi, email: string, roles: object[]): Promise<Client & { id: number }> {
  const { token, id } = await invite(api, email, roles)
  return { ...await logIn(api, { invitation: token, password: PASSWORD }), id }
}

/** Uses a personal key. */
async function callWith (
  api: TestApi, key: string, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object
): Promise<{ status: number, body: any }> {
  await api.keys.refresh()
  const response = await api.app.inject({
    method, url: url.replace(/^~/, `/api/projects/${api.projectId}`), headers: { authorization: `Bearer ${key}` }, ...body === undefined ? {} : { payload: body }
  })
  return { status: response.statusCode, body: response.body === '' ? undefined : JSON.parse(response.body) }
}

const everywhere = (role: string): object[] => [{ project_id: null, role }]

t.test('an invitation sets a password once, within its time, with which the person logs in', async (t) => {
  const api = await whole.inNewProject()
  const { token } = await invite(api, 'Bo@Example.com', everywhere('editor'))
  const accept = async (token: string, password = PASSWORD) => await send(api, 'POST', '/console/session', { body: { invitation: token, password, first_name: 'Bo' } })

  t.match(await accept(token, 'short'), { status: 400, body: { attr: 'password' } })
  const blanks = ' \u00a0\u3000\u200b'.repeat(4)
  for (const guessed of [blanks, `${blanks}abc`, 'aaaaaaaaaaaa', 'ABABABABABAB', ' bo@EXAMPLE.com', 'Password123!', 'p@$$w0rd2026', '1234567890', 'poiuytrewq', 'Qwertz12345', 'abcdefghij']) {
    t.match(await accept(token, guessed), { status: 400, body: { attr: 'password' } }, guessed)
  }
  t.match(await accept('never'), { status: 401 })
  t.match(await accept(token), { status: 200, body: { email: 'bo@example.com', first_name: 'Bo', all_projects: true } })
  t.match(await accept(token), { status: 401, body: { detail: /already used/ } })
  t.match(await send(api, 'POST', '/console/session', { body: { email: ' BO@example.com', password: PASSWORD } }), { status: 200 })
  const late = await invite(api, 'cy@example.com', everywhere('viewer'))
  time += 7 * 86_400_000 + 1
  t.match(await accept(late.token), { status: 401 })
  t.notMatch(JSON.stringify(await api.sql`SELECT * FROM users`), PASSWORD)

  const again = await invite(api, 'bo@example.com', everywhere('viewer'))
  const old = await logIn(api, { email: 'bo@example.com', password: PASSWORD })
  t.match(await accept(again.token, 'another password'), { status: 200 })
  t.match(await old.call('GET', '/api/users/@me'), { status: 401 }, 'whoever had the old password is logged out')
  t.match(await send(api, 'POST', '/console/session', { body: { email: 'bo@example.com', password: PASSWORD } }), { status: 401 })
})

t.test('a new link leaves roles as they are, and of two who use it at once one finds it used', async (t) => {
  const api = await whole.inNewProject()
  const { id } = await joinAs(api, 'E\u0301va@example.com', everywhere('editor'))
  const link = async (email: string) => await api.call('POST', '/api/invitations', { email })
  t.match(await link('nobody@example.com'), { status: 400, body: { attr: 'roles' } })
  t.match(await link('inv\u200bisible@example.com'), { status: 400, body: { attr: 'email' } })
  t.notMatch(JSON.stringify((await api.call('GET', '/api/users')).body), /nobody@/)
  const { status, body: made } = await link('\u00e9VA@example.com')
  t.match({ status, made }, { status: 201, made: { user: { id, roles: [{ role: 'editor' }] } } }, 'however it is typed')
  const use = async (password: string) => (await send(api, 'POST', '/console/session', { body: { invitation: made.link.split('=').at(-1), password } })).status
  t.same((await Promise.all([use('one of two'), use('the other of two')])).sort(), [200, 401])

  // At the identity provider, where it was found before somebody else used it.
  const identity = { issuer: 'https://id.example.com', subject: 'eva', email: '', isEmailVerified: false, firstName: '', groups: [], tokens: null }
  const admit = async (token: string) => await admitIdentity(api.sql, identity, { roles: [], invited: { userId: id, token }, address: '' })
  await t.rejects(admit(made.link.split('=').at(-1)), /already used/)
  const before = await logIn(api, { email: '\u00e9va@example.com', password: 'one of two' })
    .catch(async () => await logIn(api, { email: '\u00e9va@example.com', password: 'the other of two' }))
  t.equal(await admit((await link('\u00e9va@example.com')).body.link.split('=').at(-1)), id)
  t.match(await before.call('GET', '/api/users/@me'), { status: 401 }, 'whoever had the old account is logged out')
})

t.test('a person changes the password, which ends other sessions and an open link', async (t) => {
  const api = await whole.inNewProject()
  const dan = await joinAs(api, 'dan@example.com', everywhere('viewer'))
  const other = await logIn(api, { email: 'dan@example.com', password: PASSWORD })
  const { body: { link } } = await api.call('POST', '/api/invitations', { email: 'dan@example.com' })
  const { body: { value } } = await dan.call('POST', '/api/personal_api_keys', { label: 'own', scopes: ['user:write'] })
  const [{ hash } = { hash: '' }] = await api.sql<{ hash: string }[]>`SELECT password_hash AS hash FROM users WHERE id = ${dan.id}`
  const body = { current_password: PASSWORD, password: 'another password' }
  const change = async (given: object) => await dan.call('POST', '/api/users/@me/password', { ...body, ...given })
  const attempt = async (body: object) => (await send(api, 'POST', '/console/session', { body })).status

  t.match(await change({ current_password: 'wrong' }), { status: 400, body: { attr: 'current_password' } })
  for (const password of ['short', ' '.repeat(10), 'dan@example.com']) t.match(await change({ password }), { status: 400, body: { attr: 'password' } })
  t.match(await callWith(api, value, 'POST', '/api/users/@me/password', body), { status: 403 }, 'not by a key')
  t.same((await Promise.all([change({}), change({ password: 'yet another one' })])).map(({ status }) => status).sort(), [200, 400])
  t.match(await dan.call('GET', '/api/users/@me'), { status: 200 })
  t.match(await other.call('GET', '/api/users/@me'), { status: 401 })
  t.match(await callWith(api, value, 'GET', '/api/users/@me'), { status: 200 }, 'a key stays')
  t.equal(await attempt({ email: 'dan@example.com', password: PASSWORD }), 401)
  t.equal(await attempt({ invitation: link.split('=').at(-1), password: 'from the link' }), 401)
  // As by a login that had checked the old password before, and by one that began before the user was disabled.
  await t.rejects(createSessions({ sql: api.sql, now: () => time }).beginOfUser(dan.id, hash), /has another password now/)
  const { body: { results } } = await api.call('GET', `/api/record?object=users&kind=change&user_id=${dan.id}`)
  t.match(results[0], { object_id: String(dan.id), after: { password_set_at: String } })
  t.notMatch(JSON.stringify(results), /argon2|another/)
  t.match((await api.call('GET', `/api/record?kind=refusal&user_id=${dan.id}`)).body.results, [{ object: 'password' }, { object: 'password' }])

  for (let n = 0; n < 12; n++) await change({ current_password: 'guessed' })
  t.match(await change({}), { status: 429 }, 'whoever has a stolen session guesses no more than anybody')
  await api.sql`UPDATE users SET password_hash = NULL WHERE id = ${dan.id}`
  t.match(await change({}), { status: 400, body: { detail: /identity provider/ } })
})

t.test('wrong passwords get no more answers than the limit, and others still log in', async (t) => {
  const api = await whole.inNewProject()
  await joinAs(api, 'bo1@example.com', everywhere('viewer'))
  await joinAs(api, 'cy1@example.com', everywhere('viewer'))
  const attempts = Number(process.env['MILLRACE_TEST_PASSWORDS'] ?? 200)
  const attempt = async (email: string, password = 'wrong password', address = '198.51.100.7') => {
    for (;;) {
      const answer = await send(api, 'POST', '/console/session', { body: { email, password }, address })
      // Too many at once for this machine; it was not counted.
      if (answer.status !== 503) return answer
    }
  }

  const answers = new Map<number, number>()
  for (let n = 0; n < attempts; n += 50) {
    const meanwhile = n % 1000 === 0 ? attempt('cy1@example.com', PASSWORD) : null
    for (const { status } of await Promise.all(Array.from({ length: 50 }, async () => await attempt('bo1@example.com')))) {
      answers.set(status, (answers.get(status) ?? 0) + 1)
    }
    if (meanwhile !== null) t.match(await meanwhile, { status: 200 }, 'others log in meanwhile, from the same address')
  }

  const { 401: wrong = 0, ...others } = Object.fromEntries(answers)
  t.ok(wrong > 0 && wrong <= 10, `${wrong} answers`)
  t.same(others, { 429: attempts - wrong })
  const { status: locked, retryAfter, body: { detail } } = await attempt('bo1@example.com', PASSWORD)
  t.match({ locked, detail }, { locked: 429, detail: /Try again in 1[56] minutes/ }, 'nor does the right one')
  t.ok(retryAfter >= 900 && retryAfter <= 901, `${retryAfter} s`)
  t.match(await attempt('cy1@example.com', PASSWORD), { status: 200 }, 'from the same address')
  // As after 37 more of them, which would take seconds. The count of the account is one above its limit.
  await api.sql`UPDATE login_attempts SET count = 47 WHERE count = ${wrong}`
  let guessed = 0
  for (let n = 0; n < 6; n++) if ((await attempt(`guess${n}@example.com`)).status === 401) guessed++
  t.equal(guessed, 3, 'one password at many accounts')
  const fromNetwork = async (n: number): Promise<number> => (await attempt(`v6-${n}@example.com`, 'wrong password', `2001:db8::${n}`)).status
  const known = (await api.sql<{ subject: string }[]>`SELECT subject FROM login_attempts`).map(({ subject }) => subject)
  await fromNetwork(1)
  await fromNetwork(2)
  // As after 47 more of them.
  const { count: networks } = await api.sql`UPDATE login_attempts SET count = 49 WHERE count = 2 AND subject <> ALL(${known})`
  t.equal(networks, 1)
  t.same([await fromNetwork(50), await fromNetwork(51)], [401, 429], 'one network of IPv6 is one address')
  for (let n = 0; n < 12; n++) t.match(await attempt('cy1@example.com'), { status: 429 }, 'a locked address locks no account')
  t.match(await attempt('cy1@example.com', PASSWORD, '203.0.113.9'), { status: 200 }, 'from another address')
  time += 900_001
  t.match(await attempt('bo1@example.com', PASSWORD), { status: 200 })
})

t.test('no account is distinguished from an account', async (t) => {
  const api = await whole.inNewProject()
  const { id } = await joinAs(api, 'bo2@example.com', everywhere('viewer'))
  await api.call('POST', '/api/users', { email: 'keys@example.com' })
  await invite(api, 'open@example.com', everywhere('viewer'))
  await joinAs(api, 'gone2@example.com', everywhere('viewer'))
  await api.sql`UPDATE users SET disabled_at = now() WHERE email = 'gone2@example.com'`
  const measure = async (email: string): Promise<number> => {
    // CPU time of all threads: other processes do not count.
    const times: number[] = []
    for (let n = 0; n < 3; n++) {
      const from = process.cpuUsage()
      const { status, body } = await send(api, 'POST', '/console/session', { body: { email, password: 'wrong password' }, address: email })
      times.push(process.cpuUsage(from).user / 1000)
      t.match({ status, body }, { status: 401, body: { detail: 'Wrong e-mail address or password.' } }, email)
    }
    return Math.min(...times)
  }

  const known = await measure('bo2@example.com')
  for (const email of ['nobody@example.com', 'keys@example.com', 'open@example.com', 'gone2@example.com']) {
    const unknown = await measure(email)
    t.ok(unknown > known / 3 && unknown < known * 3, `${email}: ${unknown.toFixed(1)} ms, a known account ${known.toFixed(1)} ms`)
  }
  t.ok(id)
})

t.test('the keys of a person never exceed the person, whatever they say and whenever that changes', async (t) => {
  const api = await whole.inNewProject()
  const other = await api.inNewProject()
  const bo = await joinAs(api, 'bo3@example.com', [{ project_id: api.projectId, role: 'editor' }, { project_id: other.projectId, role: 'viewer' }])
  const flag = { key: 'f', filters: { groups: [] } }
  const make = async (scopes: string[], projects: number[] | null = [api.projectId]) =>
    await bo.call('POST', '/api/personal_api_keys', { label: 'own', scopes, scoped_teams: projects })

  t.match(await make(['*']), { status: 400, body: { attr: 'scopes' } })
  t.match(await make(['feature_flag:write'], null), { status: 400 }, 'an editor of one project')
  t.match(await make(['feature_flag:write'], [other.projectId]), { status: 400 })
  const { status, body: { value } } = await make(['feature_flag:write'])
  t.equal(status, 201)
  const use = async (method: 'GET' | 'POST', project: number, body?: object) =>
    (await callWith(api, value, method, `/api/projects/${project}/feature_flags`, body)).status
  t.equal(await use('POST', api.projectId, flag), 201)
  t.equal(await use('GET', other.projectId), 404)
  // A key that says more than its owner may, as if the check above were not there.
  await api.sql`UPDATE personal_api_keys SET scopes = '{*}', project_ids = NULL WHERE label = 'own'`
  t.equal(await use('GET', other.projectId), 200)
  t.equal(await use('POST', other.projectId, { ...flag, key: 'g' }), 403, 'a viewer there')
  t.match(await api.call('PATCH', `/api/users/${bo.id}`, { roles: [{ project_id: api.projectId, role: 'viewer' }] }), { status: 200 })
  t.equal(await use('POST', api.projectId, { ...flag, key: 'h' }), 403, 'no longer an editor')
  t.equal(await use('GET', other.projectId), 404, 'no longer there')
  const refused = "The role viewer lacks the right 'feature_flag:write'. Roles that have it: editor, admin."
  t.match(await bo.call('POST', '~/feature_flags', { ...flag, key: 'h' }), { status: 403, body: { detail: refused } }, 'the session neither')
  t.match(await callWith(api, value, 'POST', '~/questions', {}), { status: 403, body: { detail: refused.replace('feature_flag', 'query') } }, 'its role lacks it')
  const { body: { value: reading } } = await bo.call('POST', '/api/personal_api_keys', { label: 'reads', scopes: ['query:read'], scoped_teams: [api.projectId] })
  t.match(await callWith(api, reading, 'POST', '~/questions', {}), { status: 403, body: { detail: "API key missing required scope 'query:write'." } })
})

t.test('a key that a person made for somebody else never exceeds the person, and ends with the person', async (t) => {
  const api = await whole.inNewProject()
  const other = await api.inNewProject()
  const eve = await joinAs(api, 'eve@example.com', everywhere('admin'))
  const { body: robot } = await api.call('POST', '/api/users', { email: 'robot@example.com' })
  const wanted = { label: 'made', scopes: ['*'], user_id: robot.id }
  const KEYS = '/api/personal_api_keys'
  const { body: bySession } = await eve.call('POST', KEYS, wanted)
  t.match(bySession, { user: { id: robot.id }, made_by_users: [eve.id] })
  const { body: own } = await eve.call('POST', KEYS, { label: 'own', scopes: ['*'] })
  t.match(own, { made_by_users: [] })
  const { body: byKey } = await callWith(api, own.value, 'POST', KEYS, wanted)
  const { body: byMade } = await callWith(api, bySession.value, 'POST', KEYS, wanted)
  const { body: foreign } = await api.call('POST', KEYS, wanted)
  const { body: rotated } = await eve.call('POST', `${KEYS}/${foreign.id}/rotate`, {})
  const made = { bySession, byKey, byMade, rotated }
  let flags = 0
  const use = async (value: string, { projectId } = api) =>
    (await callWith(api, value, 'POST', `/api/projects/${projectId}/feature_flags`, { key: `made-${++flags}`, filters: { groups: [] } })).status
  const useMade = async (project = api) => Object.fromEntries(await Promise.all(
    Object.entries(made).map(async ([name, { value }]) => [name, await use(value, project)])))
  const all = (status: number) => Object.fromEntries(Object.keys(made).map((name) => [name, status]))
  const give = async (roles: object[]) => await api.call('PATCH', `/api/users/${eve.id}`, { roles })

  t.same(await useMade(), all(201))
  t.match(await callWith(api, bySession.value, 'PATCH', `/api/users/${eve.id}`, { disabled: true }), { status: 400, body: { attr: 'disabled' } }, 'it would end itself')
  await give([{ project_id: api.projectId, role: 'editor' }])
  t.same(await useMade(), all(201))
  t.same(await useMade(other), all(404), 'her role is in one project')
  t.match(await callWith(api, byMade.value, 'POST', '/api/users', { email: 'x@example.com' }), { status: 403 })
  await give([{ project_id: api.projectId, role: 'viewer' }])
  t.same(await useMade(), all(403))
  await api.call('PATCH', `/api/users/${eve.id}`, { disabled: true })
  t.same(await useMade(), all(401))
  t.equal(await use(foreign.value), 201, 'the key that she rotated was not hers')
})

t.test('a person ends each own key, and a key itself, also when it says more than they may', async (t) => {
  const api = await whole.inNewProject()
  const flo = await joinAs(api, 'flo@example.com', everywhere('editor'))
  const make = async () => (await flo.call('POST', '/api/personal_api_keys', { label: 'own', scopes: ['feature_flag:write'] })).body
  const [first, second, third] = [await make(), await make(), await make()]
  await api.call('PATCH', `/api/users/${flo.id}`, { roles: everywhere('viewer') })
  const url = (key: { id: string }) => `/api/personal_api_keys/${key.id}`
  t.match(await flo.call('POST', `${url(first)}/rotate`, {}), { status: 403 })
  t.match(await callWith(api, first.value, 'DELETE', url(second)), { status: 403 }, 'scopes of keys count as before')
  t.match(await flo.call('DELETE', url(first)), { status: 204 })
  const limited = (await flo.call('POST', '/api/personal_api_keys', { label: 'own', scopes: ['user:write'] })).body
  t.match(await callWith(api, limited.value, 'DELETE', url(second)), { status: 403 }, 'whoever has a limited key ends no stronger one')
  await api.sql`UPDATE personal_api_keys SET scopes = '{*}' WHERE id = ${third.id}`
  t.match(await callWith(api, third.value, 'DELETE', url(third)), { status: 204 })
})

t.test('disabling ends sessions and keys, and enabling brings neither back', async (t) => {
  const api = await whole.inNewProject()
  const bo = await joinAs(api, 'bo4@example.com', everywhere('editor'))
  const { body: { value } } = await bo.call('POST', '/api/personal_api_keys', { label: 'own', scopes: ['query:read'] })
  const change = async (disabled: boolean) => await api.call('PATCH', `/api/users/${bo.id}`, { disabled })
  const useKey = async () => (await callWith(api, value, 'GET', '~/boards')).status
  t.equal(await useKey(), 200)

  t.match(await change(true), { status: 200, body: { disabled_at: String, keys: 0 } })

  t.match(await bo.call('GET', '/api/users/@me'), { status: 401 })
  t.equal(await useKey(), 401)
  t.match(await send(api, 'POST', '/console/session', { body: { email: 'bo4@example.com', password: PASSWORD } }), { status: 401 })
  t.match(await api.call('POST', '/api/invitations', { email: 'bo4@example.com', roles: everywhere('admin') }), { status: 400, body: { attr: 'email' } })
  t.match(await change(false), { status: 200, body: { disabled_at: null } })
  t.match(await bo.call('GET', '/api/users/@me'), { status: 401 })
  t.equal(await useKey(), 401)
  t.match(await logIn(api, { email: 'bo4@example.com', password: PASSWORD }), { cookie: String })
})

t.test('of two administrators who end each other at once, one remains', async (t) => {
  const api = await whole.inNewProject()
  const end = async (by: Client, of: { id: number }, email: string, n: number): Promise<number> =>
    (n % 2 === 0
      ? await by.call('PATCH', `/api/users/${of.id}`, { disabled: true })
      : await by.call('POST', '/api/invitations', { email, roles: everywhere('viewer') })).status
  for (let n = 0; n < 4; n++) {
    const [ada, bea] = [await joinAs(api, `ada${n}@example.com`, everywhere('admin')), await joinAs(api, `bea${n}@example.com`, everywhere('admin'))]
    const statuses = await Promise.all([end(ada, bea, `bea${n}@example.com`, n), end(bea, ada, `ada${n}@example.com`, n >> 1)])
    t.equal(statuses.filter((status) => status < 300).length, 1, String(statuses))
  }
})

t.test('only administrators of all projects invite, and nobody changes themselves', async (t) => {
  const api = await whole.inNewProject()
  const wanted = { email: 'x@example.com', roles: everywhere('viewer') }
  for (const role of ROLES) {
    const person = await joinAs(api, `${role}@example.com`, everywhere(role))
    const local = await joinAs(api, `local-${role}@example.com`, [{ project_id: api.projectId, role }])
    const allowed = role === 'admin'
    t.match(await person.call('POST', '/api/invitations', wanted), { status: allowed ? 201 : 403 }, role)
    t.match(await person.call('POST', '/api/users', { email: `made-by-${role}@example.com` }), { status: allowed ? 201 : 403 })
    t.match(await local.call('POST', '/api/invitations', wanted), { status: 403 }, `${role} of a project`)
    t.match(await local.call('POST', '/api/users', { email: 'y@example.com' }), { status: 403 })
    t.match(await local.call('GET', '/api/users'), { status: 200, body: { results: [{ email: `local-${role}@example.com` }] } })
    if (allowed) t.match(await person.call('PATCH', `/api/users/${person.id}`, { disabled: true }), { status: 400, body: { attr: 'disabled' } })
  }
  const bad = async (roles: object[]) => (await api.call('POST', '/api/invitations', { email: 'x@example.com', roles })).body.attr
  t.same(await Promise.all([
    bad([]), bad([{ project_id: 99, role: 'viewer' }]), bad([{ project_id: 1, role: 'owner' }]),
    bad([{ project_id: 1, role: 'viewer' }, { project_id: 1, role: 'admin' }])
  ]), ['roles', 'roles', 'roles__0__role', 'roles'])
})

t.test('a viewer sees no address of a person in any answer, unless allowed', async (t) => {
  const api = await whole.inNewProject()
  await plantMails(t, api)
  const paths = await readablePaths(api)
  const look = async (person: Client): Promise<string[]> => {
    const shown: string[] = []
    for (const path of paths) {
      const { body } = await person.call('GET', path)
      const next = new URL((await person.call('GET', `${path}?limit=1`)).body?.next ?? 'none:').searchParams
      const texts = [JSON.stringify(body ?? ''), Buffer.from(next.get('after') ?? '', 'base64url').toString()]
      if (texts.some((text) => text.includes('secret@person.example'))) shown.push(path)
    }
    return shown
  }

  t.same(await look(await joinAs(api, 'vi@example.com', everywhere('viewer'))), [])
  const allowed = await look(await joinAs(api, 'al@example.com', [{ project_id: null, role: 'viewer', sees_persons: true }]))
  t.ok(allowed.some((path) => path.includes('/persons')) && allowed.some((path) => path.includes('/remote_config')), allowed.join(' '))
  const vi = await logIn(api, { email: 'vi@example.com', password: PASSWORD })
  t.match(await vi.call('GET', '~/feature_flags'), { body: { results: [{ created_by: { email: 'ann@example.com' } }] } }, 'authors are shown')
  t.match(await vi.call('POST', '/api/sql', { query: 'SELECT 1' }), { status: 403 })
  const { body: { value } } = await vi.call('POST', '/api/personal_api_keys', { label: 'own', scopes: ['feature_flag:read'] })
  for (const path of ['/flags/definitions', '/api/feature_flag/local_evaluation']) {
    for (const named of [`project_id=${api.projectId}`, `token=${api.projectKey}`]) t.match(await callWith(api, value, 'GET', `${path}?${named}`), { status: 403 }, path)
  }
})

t.test('a viewer learns no address letter by letter', async (t) => {
  const api = await whole.inNewProject()
  await plantMails(t, api)
  const vi = await joinAs(api, 'vi2@example.com', everywhere('viewer'))
  const { paths } = (await api.call('GET', '/api/schema')).body as { paths: Record<string, { get?: { parameters?: { name: string }[] } }> }
  const searched = Object.entries(paths).filter(([path, { get }]) => path.includes('{project_id}') && get?.parameters?.some(({ name }) => name === 'search'))
    .map(([path]) => path.replace('/api/projects/{project_id}', '~'))
  const found: string[] = []
  for (const path of searched) {
    const count = async (by: Pick<Client, 'call'>, query: string): Promise<number> => {
      const { status, body } = await by.call('GET', `${path}?group_type_index=0&${query}`)
      return status === 200 ? body.count : 0
    }
    if (await count(api, 'search=secret') > 0) found.push(path)
    t.equal(await count(vi, 'search=secret'), 0, path)
  }
  for (const list of ['boards', 'event_definitions', 'experiments', 'feature_flags', 'questions', 'saved_queries']) t.ok(found.includes(`~/${list}`), list)
  t.match(await vi.call('GET', '~/event_definitions?search=mail+%40'), { status: 200, body: { count: 1, results: [{ name: 'mail to ***@***' }] } }, 'names are searched as they are shown')
  for (const list of ['boards', 'cohorts', 'event_definitions', 'event_definitions?ordering=-name', 'event_definitions?ordering=volume_30_day', 'event_schemas', 'property_definitions', 'questions', 'saved_queries']) {
    const names: string[] = (await vi.call('GET', `~/${list}`)).body.results.map(({ name, event }: { name?: string, event?: string }) => name ?? event)
    const sorted = names.toSorted()
    t.same(names, list.endsWith('-name') ? sorted.reverse() : sorted, `${list} is in the order of what it shows`)
    t.ok(names.length > 1 && names.some((name) => name.endsWith('***@***')), list)
  }
  const after = Buffer.from(JSON.stringify(['name', 'mail to s'])).toString('base64url')
  t.match(await vi.call('GET', `~/event_definitions?after=${after}`), { status: 400, body: { attr: 'after' } })
  const refused: Array<[string, string]> = [
    ['event_definitions?search=secret%40person.example', 'search'],
    ['property_definitions?event_names=%5B%22mail+to+secret%40person.example%22%5D', 'event_names'],
    ['property_definitions?properties=%5B%22secret%40person%5Cu002Eexample%22%5D', 'properties'],
    [`experiments/holdouts/1?metric=${encodeURIComponent('{"kind":"count","event":"paid","where":[{"key":"email","operator":"icontains","value":"s"}]}')}`, 'metric__where__0__key']
  ]
  for (const [path, attr] of refused) t.match(await vi.call('GET', `~/${path}`), { status: 403, body: { attr, detail: /sees_persons/ } }, path)

  const ofPerson = { event: 'paid', where: [{ key: 'plan', type: 'person', operator: 'icontains', value: 's' }] }
  const seen = { event: 'seen' }
  const where = (condition: object): object => ({ kind: 'trend', series: [{ event: null, where: [condition] }] })
  const asked: Array<[object, string]> = [
    [{ kind: 'trend', series: [seen, ofPerson], formula: 'A / B' }, 'series__1__where__0__key'],
    [{ kind: 'trend', series: [seen], breakdown: { type: 'person', property: 'plan' } }, 'breakdown__property'],
    [{ kind: 'funnel', steps: [seen, ofPerson] }, 'steps__1__where__0__key'],
    [{ kind: 'funnel', steps: [seen, { event: 'paid' }], exclude: [ofPerson] }, 'exclude__0__where__0__key'],
    [{ kind: 'retention', start: seen, returning: ofPerson }, 'returning__where__0__key'],
    [{ kind: 'lifecycle', activity: ofPerson }, 'activity__where__0__key'],
    [{ kind: 'paths', to: ofPerson }, 'to__where__0__key'],
    ...['email', '$user_email', 'Email Address', '$set', '$set_once', 'distinct_id', '$anon_distinct_id', 'alias'].map((key): [object, string] => [where({ key, operator: 'starts_with', value: 's' }), 'series__0__where__0__key']),
    [where({ key: 'contact', value: ['a', 'secret@person.example'] }), 'series__0__where__0__value__1'],
    [{ kind: 'trend', series: [{ event: 'mail to secret@person.example' }] }, 'series__0__event'],
    [{ kind: 'trend', series: [seen], breakdown: { property: 'email' } }, 'breakdown__property'],
    [{ kind: 'trend', series: [{ ...seen, measure: 'sum', property: 'email' }] }, 'series__0__property']
  ]
  const al = await joinAs(api, 'al2@example.com', [{ project_id: null, role: 'viewer', sees_persons: true }])
  for (const [asking, field] of asked) {
    const definition = { version: 1, ...asking }
    t.match(await vi.call('POST', '~/questions/answer', { definition }), { status: 403, body: { code: 'permission_denied', attr: `definition__${field}`, detail: /sees_persons/ } }, JSON.stringify(asking))
    t.match(await al.call('POST', '~/questions/answer', { definition }), { status: 503 }, 'only ClickHouse is missing')
    t.match(await vi.call('POST', '~/questions/persons', { definition, cell: {} }), { status: 403 })
  }
  t.match(await vi.call('POST', '~/questions/answer', { definition: { version: 1, ...where({ key: 'plan', value: 'pro' }) } }), { status: 503 })
  for (const path of ['questions', 'cohorts', 'feature_flags', 'experiments', 'alerts', 'exports', 'boards']) t.match(await vi.call('POST', `~/${path}`, {}), { status: 403 }, path)
})

t.test('a viewer guesses no condition of a flag', async (t) => {
  const api = await whole.inNewProject()
  await plantMails(t, api)
  const [vi, al] = [await joinAs(api, 'vi3@example.com', everywhere('viewer')), await joinAs(api, 'al3@example.com', [{ project_id: null, role: 'viewer', sees_persons: true }])]
  const draft = { key: 'probe', filters: { groups: [{ properties: [{ key: 'email', type: 'person', operator: 'icontains', value: 's' }], rollout_percentage: 100 }] } }
  const test = async (by: Client, asked: object) => await by.call('POST', '~/feature_flags/test', { flag_keys: ['probe', 'for-one'], draft, ...asked })
  t.match(await test(vi, { distinct_id: 'Secret' }), { status: 200, body: { results: [{ value: false }, { value: false }] } }, 'a flag of their own finds nothing stored')
  t.match(await test(al, { distinct_id: 'secret@person.example' }), { body: { results: [{ value: true }, { value: true }] } })
  const guesses: Array<[object, string]> = [
    [{ distinct_id: 'secret@person.example' }, 'distinct_id'],
    [{ distinct_id: 'x', person_properties: { email: 'SECRET@person.example' } }, 'person_properties__email'],
    [{ distinct_id: 'x', person_properties: { email: ['secret@person.example'] } }, 'person_properties__email__0'],
    [{ distinct_id: 'x', person_properties: { 'secret@person.example': 1 } }, 'person_properties'],
    [{ distinct_id: 'x', groups: { team: 'secret@person.example' } }, 'groups__team'],
    [{ distinct_id: 'x', group_properties: { team: { email: 'secret@person.example' } } }, 'group_properties__team__email']
  ]
  for (const [asked, attr] of guesses) t.match(await test(vi, asked), { status: 403, body: { attr, detail: /sees_persons/ } }, attr)
})

t.test('SQL on boards needs the rights of SQL, which a role in one project does not give', async (t) => {
  const api = await whole.inNewProject()
  const query = await api.call('POST', '~/saved_queries', { name: 'all', query: 'SELECT distinct_id FROM events' })
  const board = await api.call('POST', '~/boards', { name: 'b', tiles: [{ kind: 'saved_query', id: query.body.id }] })
  t.equal(board.status, 201)
  const answer = `~/boards/${board.body.id}/answers/saved_query/${query.body.id}`
  const both = await joinAs(api, 'both@example.com', [{ project_id: null, role: 'viewer' }, { project_id: api.projectId, role: 'editor' }])
  t.match(await both.call('GET', answer), { status: 403 })
  t.equal((await both.call('POST', `~/boards/${board.body.id}/links`)).status, 201)
  t.same(await api.sql`SELECT saved_queries FROM board_links WHERE board_id = ${board.body.id}`, [{ saved_queries: [] }])
})

t.test('a link to a board shows no more than whoever made it may show now', async (t) => {
  const api = await whole.inNewProject()
  const gus = await joinAs(api, 'gus@example.com', everywhere('editor'))
  const { body: question } = await gus.call('POST', '~/questions', { name: 'q', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  const { body: query } = await gus.call('POST', '~/saved_queries', { name: 'q', query: 'SELECT distinct_id FROM events' })
  const { body: board } = await gus.call('POST', '~/boards', { name: 'b', tiles: [{ kind: 'question', id: question.id }, { kind: 'saved_query', id: query.id }] })
  const { body: { value } } = await gus.call('POST', `~/boards/${board.id}/links`)
  const look = async () => {
    const { status, body } = await callWith(api, value, 'GET', '/api/shared_board')
    return status === 200 ? body.tiles.map(({ kind }: { kind: string }) => kind) : status
  }
  const change = async (body: object) => await api.call('PATCH', `/api/users/${gus.id}`, body)
  const [{ id: target }] = await api.sql<[{ id: number }]>`INSERT INTO targets ${api.sql({ project_id: api.projectId, name: 'ops', kind: 'slack', url: 'http://example.com' })} RETURNING id`
  const { body: report } = await gus.call('POST', '~/alerts', { name: 'daily', about: { kind: 'board', id: board.id }, every: 'day', targets: [target] })
  for (const name of ['phl_a', 'phl_sql']) await api.sql`INSERT INTO report_pictures ${api.sql({ key_hash: hashPersonalKey(name), alert_id: report.id, shows_sql: name === 'phl_sql', png: Buffer.from(name) })}`
  const pictures = async () => await Promise.all(['phl_a', 'phl_sql', 'phl_other'].map(async (name) =>
    (await api.app.inject(`/api/shared_board/pictures/${name}`)).statusCode))

  t.same(await look(), ['question', 'saved_query'])
  t.same(await pictures(), [200, 200, 404])
  const { headers, body } = await api.app.inject('/api/shared_board/pictures/phl_a')
  t.match([headers, body], [{ 'content-type': 'image/png', 'cache-control': 'no-store' }, 'phl_a'])
  await change({ roles: [{ project_id: api.projectId, role: 'editor' }] })
  t.same(await look(), ['question'], 'no SQL any more')
  t.same(await pictures(), [200, 404, 404])
  await change({ roles: [{ project_id: api.projectId, role: 'viewer' }] })
  t.equal(await look(), 401)
  t.same(await pictures(), [404, 404, 404])
  await change({ roles: everywhere('editor') })
  t.same(await look(), ['question', 'saved_query'])
  await api.call('POST', '/api/users', { email: 'robot2@example.com' })
  const { key: ofRobot } = await createPersonalKey(api.sql, { email: 'robot2@example.com', label: 'made', scopes: ['*'], projectIds: null, expiresAt: null })
  await api.sql`UPDATE personal_api_keys SET made_by_users = ${[gus.id]} WHERE label = 'made' AND user_id = (SELECT id FROM users WHERE email = 'robot2@example.com')`
  await api.keys.refresh()
  const { body: { value: byKey } } = await callWith(api, ofRobot, 'POST', `~/boards/${board.id}/links`)
  const lookBy = async (link: string) => (await callWith(api, link, 'GET', '/api/shared_board')).status
  t.equal(await lookBy(byKey), 200)
  await change({ roles: [{ project_id: api.projectId, role: 'viewer' }] })
  t.equal(await lookBy(byKey), 401, 'as for the key that made it, the rights of its maker count')
  await change({ roles: everywhere('editor') })
  t.same(await pictures(), [200, 200, 404])
  await api.sql`UPDATE report_pictures SET created_at = now() - interval '31 days' WHERE shows_sql`
  t.same(await pictures(), [200, 404, 404])
  await api.sql`UPDATE report_pictures SET created_at = now()`
  t.match((await change({})).body.disabling_ends, { keys: 1, board_links: 2, sql_alerts: 1 })
  t.match((await change({ disabled: true })).body.disabling_ends, { keys: 0, board_links: 0, sql_alerts: 0 })
  t.equal(await look(), 401)
  t.same(await pictures(), [404, 404, 404])
  await change({ disabled: false })
  t.same([await look(), await lookBy(byKey)], [401, 401], 'enabling brings none back')
  t.same(await pictures(), [200, 404, 404], 'nor SQL')
  await api.call('DELETE', `~/alerts/${report.id}`)
  t.same(await pictures(), [404, 404, 404], 'they go with their alert')
})

async function plantMails (t: Test, api: TestApi): Promise<void> {
  const filters = { groups: [{ properties: [{ key: 'email', type: 'person', value: 'secret@person.example', operator: 'exact' }], rollout_percentage: 100 }], payloads: { true: '{"id": 1, "email": "secret@person.example", "first_name": "S"}' } }
  t.match(await api.call('POST', '~/feature_flags', { key: 'for-one', name: 'secret@person.example', filters }), { status: 201 })
  t.match(await api.call('POST', '~/cohorts', { name: 'secret@person.example', filters: { properties: { type: 'AND', values: filters.groups[0]!.properties } } }), { status: 201 })
  t.match(await api.call('POST', '~/saved_queries', { name: 'of secret@person.example', query: "SELECT 'secret@person.example'" }), { status: 201 })
  t.match(await api.call('POST', '~/questions', { name: 'of secret@person.example', definition: { kind: 'trend', version: 1, series: [{ event: 'paid', where: filters.groups[0]!.properties }] } }), { status: 201 })
  t.match(await api.call('POST', '~/boards', { name: 'of secret@person.example' }), { status: 201 })
  t.match(await api.call('POST', '~/experiments', { name: 'of secret@person.example', feature_flag_key: 'tried' }), { status: 201 })
  t.match(await api.call('POST', '~/event_schemas', { event: 'of secret@person.example', schema: {} }), { status: 201 })
  // Names as stored and names as masked sort these differently.
  await api.call('POST', '~/cohorts', { name: 'a', distinct_ids: [] })
  await api.call('POST', '~/saved_queries', { name: 'of a', query: 'SELECT 1' })
  await api.call('POST', '~/questions', { name: 'of a', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  await api.call('POST', '~/boards', { name: 'of a' })
  await api.call('POST', '~/event_schemas', { event: 'of a', schema: {} })
  await api.sql`INSERT INTO event_definitions (project_id, name) SELECT ${api.projectId}, unnest(ARRAY['mail to secret@person.example', 'mail to a', 'z'])`
  await api.sql`INSERT INTO property_definitions (project_id, type, name) SELECT ${api.projectId}, 'event', unnest(ARRAY['secret@person.example', 'a'])`
  await api.sql`
    WITH person AS (INSERT INTO persons (project_id, uuid, properties) VALUES (${api.projectId}, gen_random_uuid(), '{"email": "secret@person.example"}') RETURNING id)
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${api.projectId}, 'secret@person.example', id FROM person`
}

/** Every GET of the document, with ids that exist where a list has some. */
async function readablePaths (api: TestApi): Promise<string[]> {
  const { paths } = (await api.call('GET', '/api/schema')).body as { paths: Record<string, Record<string, unknown>> }
  return Object.entries(paths)
    .filter(([path, operations]) => 'get' in operations && path.startsWith('/api/') && !path.includes('/live'))
    .map(([path]) => path.replace('{project_id}', String(api.projectId)).replace('{key}', 'for-one').replaceAll(/\{\w+\}/g, '1'))
}
