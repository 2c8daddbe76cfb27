/** Connecting a project, keys, users and warnings in the console. */
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { runInShell } from '../support/run-in-shell.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, findBarriers, HOSTILE, logIn, openPage, openProject, send, wasHacked, whenClosed } from './open-console.ts'

t.test('administration in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, browser, open, home } = screens

  await t.test('a project is created, its snippet is run, and the light turns', async (t) => {
    const { page, problems } = await open('/installation')
    await page.getByRole('button', { name: 'New project …' }).click()
    await page.getByLabel('Name').fill('Mars')
    await page.getByLabel('Time zone').fill('Mars/Olympus')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('Unknown time zone').waitFor()
    await page.getByLabel('Name').fill(HOSTILE[0]!)
    await page.getByLabel('Time zone').fill('Europe/Berlin')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: `Connect ${HOSTILE[0]}` }).waitFor()
    const created = Number(/\/projects\/(\d+)\/connect$/.exec(page.url())![1])
    await page.getByText('Waiting for the first event').waitFor()

    const command = await page.getByLabel('Code for curl').textContent()
    await waitFor(async () => {
      // The new key reaches ingest within a second.
      return /"status": ?(1|"Ok")/.test(await runInShell(command!))
    })
    await page.getByText(/First event received at [\d-]+ [\d:]+ \w+/).waitFor()
    t.match(await stack.sql`SELECT name, timezone FROM projects WHERE id = ${created}`, [{ name: HOSTILE[0], timezone: 'Europe/Berlin' }])
    await page.getByRole('button', { name: 'Node', exact: true }).click()
    await page.getByLabel('Code for Node').getByText('posthog-node').waitFor()
    t.match(page.url(), /sdk=node$/, 'an SDK has an address')

    await page.getByRole('button', { name: 'Rotate the key' }).click()
    const dialog = page.getByRole('dialog')
    t.ok(await dialog.getByRole('button', { name: 'Rotate' }).isDisabled(), 'not before the word is typed')
    await dialog.getByLabel('Type rotate').fill('rotate')
    await page.keyboard.press('Enter')
    await whenClosed(dialog)
    await page.getByRole('cell', { name: /^until / }).waitFor()
    t.equal((await stack.sql`SELECT 1 FROM project_api_keys WHERE project_id = ${created}`).length, 2)
    await page.getByRole('link', { name: 'See it live' }).click()
    await page.getByRole('heading', { name: 'Live events' }).waitFor()
    t.notOk(await wasHacked(page))
    await page.goto(`${stack.url}/console/installation`)
    await page.getByRole('row', { name: new RegExp(` ${created} Europe/Berlin`) }).getByRole('button', { name: /^Change …/ }).click()
    await page.getByLabel('Time zone').fill('America/Santiago')
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: new RegExp(` ${created} America/Santiago`) }).waitFor()
    t.match(await stack.sql`SELECT name, timezone FROM projects WHERE id = ${created}`, [{ name: HOSTILE[0], timezone: 'America/Santiago' }])
    // The browser itself logs each answer above 400: the time zone that there is not.
    t.same(problems.filter((text) => !/status of 400/.test(text)), [])
    await page.close()
  })

  await t.test('a key is made with the keyboard alone, shown once, rotated and revoked', async (t) => {
    const { page, problems } = await open('/keys')
    await page.getByRole('button', { name: 'New key …' }).focus()
    await page.keyboard.press('Enter')
    // Keys typed before the form has the focus are lost.
    await page.locator('input:focus').waitFor()
    await page.keyboard.type('nightly job')
    await page.getByLabel('It may do everything').waitFor()
    for (const key of ['Tab', 'Tab', 'Tab']) await page.keyboard.press(key)
    await page.keyboard.press('ArrowDown')
    t.same(await findBarriers(page), [])
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Create' }).click()
    const value = await page.getByLabel('The new key').textContent()
    await page.getByRole('button', { name: 'I have copied it' }).click()
    t.match(await stack.sql`SELECT scopes, expires_at FROM personal_api_keys WHERE label = 'nightly job'`, [{ scopes: ['event:read'], expires_at: Date }])
    await waitFor(async () => (await fetch(`${stack.url}/api${home}/ingestion_warnings/summary`, { headers: { authorization: `Bearer ${value}` } })).status === 200)

    await page.getByRole('button', { name: 'Rotate nightly job' }).click()
    await page.getByLabel('Type rotate').fill('rotate')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'I have copied it' }).click()
    await waitFor(async () => await page.getByRole('row', { name: /nightly job/ }).count() === 2)
    t.match(await page.getByRole('row', { name: /nightly job/ }).last().innerText(), /expires \d{4}-/, 'the end of the old one is shown')
    await page.getByRole('button', { name: 'Revoke nightly job' }).last().click()
    await page.getByLabel('Type revoke').fill('revoke')
    await page.keyboard.press('Enter')
    // Other files share this installation, and revoke keys of their own.
    await page.getByRole('row', { name: /nightly job/ }).getByRole('cell', { name: /^revoked / }).waitFor()
    await waitFor(async () => (await fetch(`${stack.url}/api${home}/ingestion_warnings/summary`, { headers: { authorization: `Bearer ${value}` } })).status === 401)

    t.same(problems, [])
    await page.close()
  })

  await t.test('an account for keys is made with no login', async (t) => {
    const { page, problems } = await open('/people')
    await page.getByRole('button', { name: 'Invite …' }).click()
    await page.getByLabel('E-mail').fill('bo@example.com')
    await page.getByLabel('Role').selectOption({ label: 'none: an account for keys, without a login' })
    await page.getByRole('button', { name: 'Create the account' }).click()
    await page.getByRole('row', { name: /bo@example.com .*account for keys/ }).waitFor()
    t.same(problems, [])
    await page.close()
  })

  await t.test('warnings tell what was not stored as it was sent, with hostile cases as text', async (t) => {
    await send(stack, HOSTILE.map((name) => ({ event: 'late', distinct_id: name, uuid: name, properties: {} })))
    const { page, problems } = await open(`${home}/warnings`)
    await waitFor(async () => {
      await page.reload()
      await page.locator('.reason, .empty').first().waitFor()
      return await page.getByText('uuid invalid').count() > 0
    })
    await page.getByText('uuid invalid').click()
    // Other warnings of the project may have come as often.
    await page.getByRole('group').filter({ hasText: 'uuid invalid' }).getByRole('img', { name: `${HOSTILE.length} in the last hour` }).waitFor()
    await page.getByRole('region', { name: 'Cases of uuid_invalid' }).getByRole('row').nth(1).waitFor()
    t.same(await findBarriers(page), [])
    t.notOk(await wasHacked(page))
    t.same(problems, [])
    await page.close()
  })

  await t.test('a key for one project sees no way to make projects or keys', async (t) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'reader', scopes: ['project:read', 'user:read'], projectIds: [stack.project], expiresAt: null
    })
    const context = await browser.newContext()
    const { page } = await openPage(context, stack.url, '/keys')
    await logIn(page, key)
    await page.getByRole('heading', { name: 'Keys', exact: true }).waitFor()
    t.same(await page.getByRole('navigation').getByRole('link').allInnerTexts(), ['Connect', 'Exports', 'Targets', 'Usage', 'Keys'])
    t.equal(await page.getByRole('button', { name: /^(New|Rotate|Revoke)/ }).count(), 0)
    t.equal((await page.request.get(`${stack.url}/api/status`, { headers: { 'millrace-console': '1' } })).status(), 403)
    await context.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, [`${home}/connect`, `${home}/warnings`, '/keys', '/installation'])
  })
})
