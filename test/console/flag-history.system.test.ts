/** A flag as it was and as it will be: its history, what a draft changes, and two people who change it at once. */
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { findBarriers, HOSTILE, logIn, openProject, openPage, wasHacked } from './open-console.ts'

const inOneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

t.test('the history of flags in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens
  const ask = async (method: string, path: string, body?: object): Promise<any> => await (await fetch(`${stack.url}/api${home}/feature_flags/${path}`, {
    method, headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }, ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })).json()
  const filtersFor = (plan: string, rollout: number): object => ({
    groups: [{ properties: [{ key: 'plan', type: 'person', operator: 'exact', value: plan }], rollout_percentage: rollout }]
  })

  await t.test('every change shows old and new values and its author, and a version is put back as a draft', async (t) => {
    const { id } = await ask('POST', '', { key: 'checkout', filters: filtersFor('pro', 20) })
    await ask('PATCH', `${id}/`, { filters: filtersFor('pro', 50), evaluation_runtime: 'server' })
    await ask('PATCH', `${id}/`, { active: false })
    const { page, problems } = await open(`${home}/flags/${id}`)
    const changes = page.getByRole('list', { name: 'Versions, newest first' }).getByRole('listitem')
    await changes.nth(2).waitFor()

    const [newest, second, first] = (await changes.allInnerTexts()).map(inOneLine)
    t.match(newest, /^Version 3 .* by admin@millrace.localhost with the key “first key” active before: true after: false$/)
    t.match(second, /^Version 2 .* filters › groups › 0 › rollout_percentage before: 20 after: 50 evaluation_runtime before: "all" after: "server"$/)
    t.match(first, /^Version 1 .* key before: "" after: "checkout" filters › groups › 0 new: .*"value":"pro".*$/)
    t.equal(await changes.nth(0).getByRole('button').count(), 0, 'the newest is the saved one')

    await page.getByRole('button', { name: 'To the draft from version 1' }).press('Enter')
    t.ok(await page.evaluate(() => (globalThis as any).document.activeElement.querySelector('form') !== null), 'the keyboard goes on at the draft')
    const draft = page.getByLabel('Unsaved changes')
    t.match(inOneLine(await draft.innerText()),
      /^active before: false after: true filters › groups › 0 › rollout_percentage before: 50 after: 20 evaluation_runtime before: "server" after: "all"$/)
    t.match(await ask('GET', `${id}/`), { version: 3 }, 'nothing is saved yet')
    t.same(await findBarriers(page), [])
    await page.getByRole('button', { name: 'Save' }).press('Enter')
    await page.getByRole('heading', { name: 'Version 4' }).waitFor()
    t.match(await ask('GET', `${id}/`), { version: 4, active: true, evaluation_runtime: 'all', filters: filtersFor('pro', 20) })
    t.same(problems, [])
    await page.close()
  })

  await t.test('what a draft changes is shown before it is saved, and can be discarded', async (t) => {
    const { id } = await ask('POST', '', { key: 'draft', filters: filtersFor('pro', 20) })
    const { page } = await open(`${home}/flags/${id}`)
    await page.getByText('Identical to version 1.').waitFor()
    t.equal(await page.getByLabel('Unsaved changes').count(), 0)

    await page.getByRole('spinbutton', { name: 'Rollout' }).fill('35')
    await page.getByRole('button', { name: 'Add a condition' }).click()
    await page.getByLabel('Name').fill('New name')
    t.equal(inOneLine(await page.getByLabel('Unsaved changes').innerText()), 'name before: "" after: "New name" ' +
      'filters › groups › 0 › rollout_percentage before: 20 after: 35 filters › groups › 1 new: {"properties":[],"rollout_percentage":100}')
    await page.getByText('Not saved yet, on version 1.').waitFor()
    await page.getByRole('button', { name: 'Discard' }).click()
    await page.getByText('Identical to version 1.').waitFor()
    t.equal(await page.getByRole('spinbutton', { name: 'Rollout' }).inputValue(), '20')
    await page.close()
  })

  await t.test('a save over what somebody else saved meanwhile is refused, and the draft goes on from there', async (t) => {
    const { id } = await ask('POST', '', { key: 'together', filters: filtersFor('pro', 20) })
    const { page, problems } = await open(`${home}/flags/${id}`)
    await page.getByLabel('Name').fill('Mine')
    await ask('PATCH', `${id}/`, { filters: filtersFor('team', 90) })

    await page.getByRole('button', { name: 'Save' }).click()
    const alert = page.getByRole('alert')
    await alert.getByText('Not saved: another user has saved version 2.').waitFor()
    t.match(inOneLine(await alert.innerText()), /version 2, saved by admin@millrace.localhost; .* based on version 1.* before: "pro" after: "team" .* before: 20 after: 90/)
    t.match(await ask('GET', `${id}/`), { version: 2, name: '', filters: filtersFor('team', 90) })
    t.same(await findBarriers(page), [])

    await alert.getByRole('button', { name: 'Continue my draft on version 2' }).press('Enter')
    t.notMatch(await page.getByLabel('Unsaved changes').innerText(), /team/, 'their change is no part of mine')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Version 3' }).waitFor()
    t.match(await ask('GET', `${id}/`), { version: 3, name: 'Mine', filters: filtersFor('team', 90) })
    t.same(problems.filter((problem) => !problem.includes('409')), [])
    await page.close()
  })

  await t.test('a key that may only read sees the history, and is offered no way to change', async (t) => {
    const { id } = await ask('POST', '', { key: 'read-only', filters: filtersFor('pro', 20) })
    await ask('PATCH', `${id}/`, { active: false })
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: '', scopes: ['feature_flag:read'], projectIds: [stack.project], expiresAt: null
    })
    const context = await screens.browser.newContext()
    const { page } = await openPage(context, stack.url, '')
    await logIn(page, key)
    await page.goto(`${stack.url}/console${home}/flags/${id}`)
    await page.getByRole('heading', { name: 'Version 1', exact: true }).waitFor()

    for (const name of ['Save', 'Discard', /^To the draft/]) t.equal(await page.getByRole('button', { name }).count(), 0, String(name))
    t.ok(await page.getByRole('checkbox', { name: 'On' }).isDisabled())
    await context.close()
  })

  await t.test('texts of flags are shown as text, and fit with the rest in light and dark', async (t) => {
    const { id } = await ask('POST', '', { key: 'hostile', name: HOSTILE[0] })
    for (const value of HOSTILE) await ask('PATCH', `${id}/`, { name: value, filters: filtersFor(value, 5) })
    for (let rollout = 10; rollout < 20; rollout++) await ask('PATCH', `${id}/`, { filters: filtersFor(HOSTILE[0]!, rollout) })
    const { page, problems } = await open(`${home}/flags/${id}`)
    await page.getByRole('heading', { name: 'Version 18' }).waitFor()
    await page.getByText('10 of 18').waitFor()
    await page.getByRole('button', { name: 'Show older changes' }).click()
    await page.getByRole('heading', { name: 'Version 1', exact: true }).waitFor()

    t.notOk(await wasHacked(page))
    await page.getByLabel('Name').fill('another')
    for (const [colorScheme, width] of [['light', 360], ['dark', 1280], ['light', 2560]] as const) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      t.same(await findBarriers(page), [], `${colorScheme} ${width}`)
      t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), `fits ${width}`)
    }
    t.same(problems, [])
    await page.close()
  })
})
