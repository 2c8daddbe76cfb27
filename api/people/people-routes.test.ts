/** People: invitations, passwords and their limits, roles, and what ends with a person. */
import t from 'tap'
import { ROLES } from '../../schema/roles.ts'
import { createSessions } from '../../console/server/sessions.ts'
import { admitIdentity } from './admit-identity.ts'
import { createTestApi } from '../testing/create-test-api.ts'
import { callWith, type Client, everywhere, invite, joinAs, logIn, PASSWORD, send } from '../testing/people-clients.ts'

let time = Date.now()
const whole = await createTestApi(t, { now: () => time })

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
