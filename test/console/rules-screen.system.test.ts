/** Rules in the console: written with tests, checked against stored events, activated, counted and reordered. */
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import type { StackProject } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { takeKeyboard } from './hands.ts'
import { checkScreens, findBarriers, logIn, openProject, openPage, send, wasHacked } from './open-console.ts'

/** A rule with an action that there is not. */
const WRONG = {
  condition: { type: 'AND', values: [{ type: 'event', value: 'order paid' }, { type: 'property', key: 'email', operator: 'ends_with', value: '@example.com' }] },
  actions: [{ type: 'discard' }]
}
const RIGHT = { ...WRONG, actions: [{ type: 'drop' }] }

/** What a check of stored events finds. Until ingest follows a rule that was activated, it stores further ones. */
const affected = (how: string): RegExp => new RegExp(`^([1-9]\\d*) of \\d+ events pass: \\1 ${how}\\.$`)

/** Events that rules dropped. */
async function countDropped ({ url, personalApiKey, project }: StackProject): Promise<number> {
  const response = await fetch(`${url}/api/projects/${project}/rules/counts`, { headers: { authorization: `Bearer ${personalApiKey}` } })
  const { results } = await response.json() as { results: { dropped: number }[] }
  return results.reduce((sum, { dropped }) => sum + dropped, 0)
}

t.test('rules in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, browser, open, home } = screens
  const stored = async (): Promise<number> => Number((await stack.select<{ n: string }>('SELECT count() AS n FROM events WHERE project_id = {project: UInt32}', { project: stack.project }))[0]!.n)

  await t.test('a rule is written, checked, activated and counted', async (t) => {
    await send(stack, [
      ...Array.from({ length: 5 }, (_, index) => ({ event: 'order paid', properties: { email: `qa${index}@example.com`, $lib: 'web', $lib_version: '1.2.3' } })),
      { event: 'order paid', properties: { email: 'ann@example.org' } }, { event: 'other' }
    ])
    await waitFor(async () => await stored() === 7)
    const { page, problems } = await open(`${home}/rules`)
    await page.getByText('There are no rules yet').waitFor()
    t.same(await findBarriers(page), [])
    await page.getByRole('link', { name: 'New rule' }).click()
    await page.getByLabel('Name, shown in receipts').fill('no test orders')
    const editor = page.getByLabel('Condition and actions')
    await editor.fill('{ "actions": [{ "type": "drop" }], "active_version": 1 }')
    await page.getByRole('button', { name: 'Store the rule' }).click()
    await page.getByRole('alert').getByText('Only condition and actions are allowed here.').waitFor()
    await editor.fill(JSON.stringify(WRONG, null, 2))
    await page.getByRole('button', { name: 'Store the rule' }).click()
    await page.getByRole('alert').getByText('One of drop, sample').waitFor()
    t.same(await stack.sql`SELECT name FROM event_rules WHERE project_id = ${stack.project}`, [], 'it is not stored')
    await page.getByRole('alert').getByText('actions › 0 › type').waitFor()
    await editor.fill(JSON.stringify(WRONG, null, 2).replace('discard', 'drop'))
    await page.getByText('When the event is "order paid" and email ends with "@example.com": drop it.').waitFor()
    await page.getByRole('button', { name: 'Store the rule' }).click()
    await page.getByRole('heading', { name: 'no test orders', level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByText('5 of 6 events pass: 5 dropped.').waitFor()
    t.match(await page.getByRole('region', { name: 'By event' }).innerText(), /order paid\s+6\s+5/)
    t.match(await page.getByRole('region', { name: 'By SDK' }).innerText(), /web\s+1\.2\.3\s+5\s+5/)
    t.equal(await page.getByRole('link', { name: /^order paid …[\da-f]{8}$/ }).count(), 5, 'samples lead to their receipts')
    t.same(await findBarriers(page), [], 'a prediction')

    await page.getByRole('button', { name: 'Activate …', exact: true }).focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('5 of 6 events pass: 5 dropped.').waitFor()
    await dialog.getByRole('button', { name: 'Activate version 1' }).click()
    await page.getByText('on, version 1: When the event is').waitFor()
    await waitFor(async () => {
      // Ingest follows within a second, and counts within some more.
      await send(stack, [{ event: 'order paid', properties: { email: 'late@example.com' } }])
      return await countDropped(stack) > 0
    }, { everyMs: 500 })
    await page.reload()
    await page.getByText(/[1-9]\d* dropped, 0 sampled out, 0 changed/).waitFor()
    t.notOk(await wasHacked(page))
    // The browser itself logs each answer above 400: the rule that is refused.
    t.same(problems.filter((text) => !/status of 400/.test(text)), [])
    await page.close()
  })

  await t.test('a rule that somebody else changed meanwhile is not overwritten', async (t) => {
    const { id } = (await stack.sql<{ id: number }[]>`SELECT id FROM event_rules WHERE project_id = ${stack.project}`)[0]!
    const { page, problems } = await open(`${home}/rules/${id}`)
    const editor = page.getByLabel('Condition and actions')
    await editor.fill('{ "actions": [{ "type": "drop" }] }')
    const response = await fetch(`${stack.url}/api${home}/rules/${id}/`, {
      method: 'PATCH', headers: { 'content-type': 'application/json', authorization: `Bearer ${stack.personalApiKey}` },
      body: JSON.stringify({ ...RIGHT, condition: { type: 'event', value: 'theirs' } })
    })
    t.equal(response.status, 200)

    await page.getByRole('button', { name: 'Store a version' }).click()
    const alert = page.getByRole('alert')
    await alert.getByText('Not saved: another user has saved version 2.').waitFor()
    t.match(await alert.innerText(), /Changes from version 1 to 2\s+condition/)
    t.match(await stack.sql`SELECT version FROM event_rules WHERE project_id = ${stack.project}`, [{ version: 2 }])
    await alert.getByRole('button', { name: 'Discard my draft' }).click()
    await page.getByText('Identical to version 2.').waitFor()
    await editor.fill(JSON.stringify(RIGHT, null, 2))
    await page.getByRole('button', { name: 'Store a version' }).click()
    await page.getByText('Identical to version 3.').waitFor()
    await editor.fill(JSON.stringify({ ...RIGHT, actions: [{ type: 'truncate_ip' }] }))
    await page.getByText('Not saved yet, on version 3.').waitFor()
    await editor.fill(`${JSON.stringify(RIGHT)} `)
    await page.getByText('Identical to version 3.').waitFor()
    t.same(problems.filter((problem) => !problem.includes('409')), [])
    await page.close()
  })

  await t.test('a draft is distinguished from the enforced version', async (t) => {
    const { page, problems } = await open(`${home}/rules`)
    await page.getByRole('link', { name: 'no test orders' }).click()
    const editor = page.getByLabel('Condition and actions')
    await editor.fill(JSON.stringify({ ...RIGHT, actions: [{ type: 'hash_property', property: 'email' }] }, null, 2))
    await page.getByText('The draft differs in actions › 0 › type, actions › 0 › property.').waitFor()
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByText(affected('changed')).waitFor()
    await editor.fill(JSON.stringify(RIGHT, null, 2))
    const asked = Promise.withResolvers<undefined>()
    await page.route('**/check/', async (route) => {
      const answer = await route.fetch()
      await asked.promise
      await route.fulfill({ response: answer, body: '{"checked":1234,"total":5000}\n' })
    })
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByText('Counting events …').waitFor()
    asked.resolve(undefined)
    await page.getByRole('alert').getByText('The check was interrupted').waitFor()
    await page.unroute('**/check/')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText(affected('dropped')).waitFor()
    await page.getByRole('button', { name: 'To the draft from version 1' }).click()
    await page.getByText('The draft says the same.').waitFor()
    await page.getByRole('button', { name: 'Disable …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click()
    await page.getByText('No version is active: the rule does nothing.').waitFor()
    t.same(problems.filter((text) => !/status of 400/.test(text)), [])
    await page.close()
  })

  await t.test('rules change their order by the keyboard, and the order is announced', async (t) => {
    for (const name of ['second', 'third']) {
      const answer = await fetch(`${stack.url}/api${home}/rules/`, {
        method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name, actions: [{ type: 'sample', rate: 0.5 }] })
      })
      t.equal(answer.status, 201)
    }
    const { page, problems } = await open(`${home}/rules`)
    const names = async (): Promise<string[]> => await page.getByRole('region', { name: 'Rules' }).getByRole('link').allInnerTexts()
    await page.getByRole('link', { name: 'third' }).waitFor()
    t.same(await names(), ['no test orders', 'second', 'third'])
    await page.getByRole('button', { name: 'Run third earlier' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('third runs earlier now: place 2 of 3.').waitFor()
    await waitFor(async () => (await names()).join() === 'no test orders,third,second')
    await page.keyboard.press('Enter')
    await waitFor(async () => (await names()).join() === 'third,no test orders,second')
    await page.getByRole('button', { name: 'Run third later' }).click()
    await waitFor(async () => (await names()).join() === 'no test orders,third,second')
    t.same((await stack.sql<{ name: string }[]>`SELECT name FROM event_rules WHERE project_id = ${stack.project} ORDER BY position, id`).map(({ name }) => name), ['no test orders', 'third', 'second'])
    await stack.sql`UPDATE event_rules SET position = CASE name WHEN 'third' THEN 10 WHEN 'no test orders' THEN 20 ELSE 30 END WHERE project_id = ${stack.project}`
    await page.getByRole('button', { name: 'Run third later' }).click()
    await page.getByText('third runs later now: place 2 of 3.').waitFor()
    t.same(await names(), ['no test orders', 'third', 'second'], 'from where it is, also when it was moved elsewhere')
    t.match(await page.getByRole('row', { name: /no test orders/ }).innerText(), /off\s+[1-9]/, 'what it dropped is still counted')
    t.same(problems, [])
    await page.close()
  })

  await t.test('a rule is made and changed by its fields, with the keyboard alone, and the JSON follows', async (t) => {
    const { page, problems } = await open(`${home}/rules/new`)
    const hand = takeKeyboard(page)
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const nth = (label: string, index: number) => page.getByLabel(new RegExp(`^${label}\\b`)).nth(index)
    const draft = async (): Promise<unknown> => JSON.parse(await page.getByLabel('Condition and actions').inputValue())
    const value = 'Value: text, or JSON for numbers and lists'
    await hand.write(page.getByLabel('Name, shown in receipts'), 'by hand')
    await hand.press(button('Remove condition 2'))
    await hand.write(nth(value, 0), 'page seen')
    t.same(await draft(), { condition: { type: 'event', value: 'page seen' }, actions: [{ type: 'drop' }] })
    await hand.press(button('Add a condition'))
    await hand.choose(page.getByRole('combobox', { name: 'What' }).nth(1), 'property')
    await hand.write(nth('Property', 0), 'age')
    await hand.choose(nth('Operator', 1), '≥')
    await hand.write(nth(value, 1), '18')
    await hand.press(page.getByLabel('not', { exact: true }).nth(1))
    await hand.choose(nth('When', 0), 'one of these holds')
    await hand.choose(nth('Then', 0), 'store a sample')
    await hand.write(page.getByLabel('% of all distinct ids'), '12.5')
    await hand.press(button('Add a step'))
    await hand.choose(nth('Then', 1), 'set a property')
    await hand.write(nth('Property', 1), 'plan')
    await hand.write(page.getByLabel('To: text, or JSON'), 'null')
    await page.getByText('When the event is "page seen" or not (age ≥ 18): store it for 12.5 % of all distinct ids and set plan to null.').waitFor()
    t.same(await findBarriers(page), [])
    await hand.press(button('Store the rule'))
    await page.getByRole('heading', { name: 'by hand', level: 1 }).waitFor()
    const [rule] = await stack.sql<{ id: number, definition: object }[]>`
      SELECT rule_id AS id, definition FROM event_rules JOIN event_rule_versions ON rule_id = event_rules.id WHERE name = 'by hand'`
    t.same(rule?.definition, {
      condition: { type: 'OR', values: [{ type: 'event', value: 'page seen' }, { type: 'property', key: 'age', operator: 'gte', value: 18, negation: true }] },
      actions: [{ type: 'sample', rate: 0.125 }, { type: 'set_property', property: 'plan', value: null }]
    })

    const nested = { type: 'AND', values: [{ type: 'ip', value: '10.0.0.0/8' }, { type: 'OR', values: [{ type: 'sdk', value: 'web' }, { type: 'sdk', value: 'node' }] }] }
    await page.getByLabel('Condition and actions').fill(JSON.stringify({ condition: nested, actions: [{ type: 'drop' }] }))
    await page.getByText('the SDK is "web" or the SDK is "node" Edit it in the JSON.').waitFor()
    await hand.choose(nth('When', 0), 'none of these holds')
    await hand.write(page.getByLabel('Address or range, or a JSON list of them'), '::1')
    t.same(await draft(), { condition: { type: 'OR', values: [{ type: 'ip', value: '::1' }, nested.values[1]], negation: true }, actions: [{ type: 'drop' }] }, 'what the fields cannot show stays')
    await page.getByLabel('Condition and actions').fill('{')
    await page.getByText('The fields reappear once the draft is a JSON object.').waitFor()
    await page.setViewportSize({ width: 390, height: 800 })
    await page.getByLabel('Condition and actions').fill(JSON.stringify({ condition: nested, actions: [{ type: 'drop' }] }))
    await button('Add a step').waitFor()
    t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), 'it fits 390')
    await stack.sql`DELETE FROM event_rule_versions WHERE rule_id = ${rule!.id}`
    await stack.sql`DELETE FROM event_rules WHERE id = ${rule!.id}`
    t.same([...problems, ...hand.problems], [])
    await page.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    const [rule] = await stack.sql<{ id: number }[]>`SELECT id FROM event_rules WHERE project_id = ${stack.project} ORDER BY id`
    await checkScreens(t, screens, [`${home}/rules`, `${home}/rules/${rule!.id}`, `${home}/rules/new`])
    const { page } = await open(`${home}/rules/${rule!.id}`)
    await page.setViewportSize({ width: 360, height: 800 })
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByRole('region', { name: 'By event' }).waitFor()
    t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), 'a prediction fits 360')
    await page.close()
  })

  await t.test('a key that may only read is offered no change, and a rule is deleted after a word is typed', async (t) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'reader', scopes: ['event_definition:read'], projectIds: [stack.project], expiresAt: null
    })
    const context = await browser.newContext()
    const { page: reader } = await openPage(context, stack.url, `${home}/rules`)
    await logIn(reader, key)
    await reader.getByRole('link', { name: 'second' }).waitFor()
    t.same(await reader.locator('main').getByRole('button').allInnerTexts(), [])
    await reader.getByRole('link', { name: 'second' }).click()
    await reader.getByRole('heading', { name: 'Versions' }).waitFor()
    t.same(await reader.locator('main').getByRole('button').allInnerTexts(), [])
    await context.close()

    const { page } = await open(`${home}/rules`)
    await page.getByRole('link', { name: 'second' }).click()
    await page.getByRole('button', { name: 'Delete …' }).click()
    t.ok(await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).isDisabled())
    await page.getByLabel('Type delete').fill('delete')
    await page.keyboard.press('Enter')
    await waitFor(async () => await page.getByRole('link', { name: 'third' }).isVisible() && await page.getByRole('link', { name: 'second' }).count() === 0)
    await page.close()
  })

  await t.test('as many rules as a project may have are one list, in which each can be moved', async (t) => {
    await stack.sql`
      WITH made AS (
        INSERT INTO event_rules (project_id, name, position) SELECT ${stack.project}, 'planted ' || n, 1000 FROM generate_series(1, 198) n RETURNING id
      )
      INSERT INTO event_rule_versions (rule_id, version, definition) SELECT id, 1, '{"condition": null, "actions": [{"type": "drop"}]}' FROM made`
    const { page, problems } = await open(`${home}/rules`)
    const names = page.getByRole('region', { name: 'Rules' }).getByRole('link')
    await waitFor(async () => await names.count() === 200)
    await page.getByRole('button', { name: 'Run planted 198 earlier' }).click()
    await waitFor(async () => (await names.allInnerTexts()).slice(-2).join() === 'planted 198,planted 197')
    t.same(problems, [])
    await page.close()
  })
})
