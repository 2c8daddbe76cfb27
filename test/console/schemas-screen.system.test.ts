/** Event schemas in the console: inferred, checked against stored events, activated, and what they keep out. */
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { waitFor } from '../support/wait-for.ts'
import { takeKeyboard } from './hands.ts'
import { askUntil, checkScreens, findBarriers, HOSTILE, logIn, openPage, openProject, send, wasHacked, whenClosed } from './open-console.ts'

const NAME = 'order paid'

t.test('event schemas in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, browser, open, home } = screens
  const stored = async (event: string): Promise<number> =>
    Number((await stack.select<{ n: string }>('SELECT count() AS n FROM events WHERE project_id = {project: UInt32} AND event = {event: String}', { event, project: stack.project }))[0]!.n)

  await t.test('nothing is there at first, and the screen fits', async (t) => {
    const { page, problems } = await open(`${home}/schemas`)
    await page.getByText('No event has a schema yet').waitFor()
    t.same(await findBarriers(page), [])
    t.same(problems, [])
    await page.close()
  })

  await t.test('a draft is inferred, stored, checked and activated, and its quarantine is beside it', async (t) => {
    await send(stack, [
      ...Array.from({ length: 30 }, (_, index) => ({ event: NAME, properties: { plan: index % 2 === 0 ? 'pro' : 'free', seats: index, $lib: 'web', $lib_version: '1.2.3' } })),
      { event: NAME, properties: { plan: HOSTILE[0], $lib: 'node', $lib_version: '5.0.0' } }
    ])
    await waitFor(async () => await stored(NAME) === 31)
    const { page, problems } = await open(`${home}/schemas`)
    await page.getByRole('link', { name: 'New schema' }).click()
    await page.getByLabel('Name of the event').fill(NAME)
    await page.getByRole('button', { name: 'Infer a draft' }).click()
    await page.getByText('Inferred from 31 events').waitFor()
    const editor = page.getByLabel('JSON Schema of the properties')
    t.match(JSON.parse(await editor.inputValue()), { type: 'object', required: ['plan'], properties: { plan: { type: 'string' }, seats: { type: 'integer' } } })
    t.same(await findBarriers(page), [], 'a new schema')

    await editor.fill('{\n  "required": ["plan", "seats"],\n  "properties": { "plan": { "pattern": "(" } }\n}')
    await page.getByRole('button', { name: 'Store the schema' }).click()
    const wrong = page.getByRole('alert')
    await wrong.getByText('properties › plan › pattern').waitFor()
    await editor.fill('{ "required": ["plan", "seats"], ')
    await page.getByRole('button', { name: 'Store the schema' }).click()
    await wrong.getByText('This is not JSON').waitFor()
    await editor.fill(JSON.stringify({ required: ['plan', 'seats'], properties: { plan: { enum: ['free', 'pro'] } } }, null, 2))
    await page.getByRole('button', { name: 'Store the schema' }).click()
    await page.getByRole('heading', { name: NAME, level: 1 }).waitFor()
    await page.getByText('No version is active').waitFor()

    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByText('1 of 31 events (3.2 %) do not meet it, and would have been stored and counted.').waitFor()
    const byProperty = page.getByRole('region', { name: 'By property' })
    t.match(await byProperty.getByRole('row', { name: /^plan/ }).innerText(), /is not an allowed value[\s\S]*1 \(3\.2 %\)[\s\S]*<img src=x/)
    t.match(await byProperty.getByRole('row', { name: /^seats/ }).innerText(), /is missing[\s\S]*no value/)
    t.match(await page.getByRole('region', { name: 'By SDK' }).getByRole('row', { name: /^node/ }).innerText(), /5\.0\.0\s+1\s+1 \(100 %\)/)
    t.same(await findBarriers(page), [], 'a prediction')

    await page.getByRole('button', { name: 'Activate …', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('radio', { name: /^quarantine/ }).focus()
    await page.keyboard.press('Space')
    await dialog.getByText('1 of 31 events (3.2 %) do not meet it, and would have been quarantined.').waitFor()
    t.same(await findBarriers(page), [], 'the dialog')
    await dialog.getByRole('button', { name: 'Activate version 1' }).click()
    await page.getByText('version 1, quarantine').waitFor()
    await page.getByText('The draft says the same.').waitFor()

    await askUntil(async () => {
      // Ingest follows within a second.
      await send(stack, [{ event: NAME, properties: { plan: 'gold', seats: 1 } }])
      await page.reload()
    }, page.getByText(/: [1-9]\d* quarantined/))
    await page.getByRole('link', { name: 'Dead letters of order paid' }).click()
    await page.getByText(`Only of ${NAME}`).waitFor()
    t.match(await page.getByRole('region', { name: 'Groups of dead letters' }).innerText(), /schema · not_met[\s\S]*enum \/plan/)
    await page.getByRole('region', { name: 'Groups of dead letters' }).getByRole('link', { name: NAME }).click()
    await page.getByRole('link', { name: /^\d+$/ }).first().click()
    await page.getByText('it does not meet the schema of its event').waitFor()
    t.notOk(await wasHacked(page))
    // The browser itself logs each answer above 400: the schema that was wrong.
    t.same(problems.filter((text) => !/status of 400/.test(text)), [])
    await page.close()
  })

  await t.test('a second version is distinguished from the active one, and a schema is disabled and deleted', async (t) => {
    const { page, problems } = await open(`${home}/schemas`)
    const row = page.getByRole('row', { name: new RegExp(`^${NAME}`) })
    t.match(await row.innerText(), /version 1, quarantine/)
    await askUntil(async () => await page.reload(), row.getByText(/^[1-9]\d* of [1-9]\d* \(.+ %\)$/))
    await row.getByRole('link', { name: NAME, exact: true }).click()
    await page.getByText(/^\d+ of \d+ \(.+ %\) events: \d+ quarantined$/).waitFor()
    const editor = page.getByLabel('JSON Schema of the properties')
    await editor.fill((await editor.inputValue()).replace('"pro"', '"pro", "gold"'))
    await page.getByText('The draft differs in properties › plan › enum.').waitFor()
    await page.getByRole('button', { name: 'Store a version' }).click()
    await page.getByText('Identical to version 2.').waitFor()
    await page.getByRole('button', { name: 'To the draft from version 2' }).waitFor()
    t.equal(await page.getByRole('list', { name: 'Versions, newest first' }).getByRole('listitem').count(), 2)
    await page.getByText('version 1, quarantine').waitFor()
    await page.getByRole('button', { name: 'To the draft from version 1' }).click()
    await page.getByText('The draft says the same.').waitFor()
    t.match(await editor.inputValue(), /"pro"\n/)

    await page.getByRole('button', { name: 'Description …' }).click()
    await page.getByLabel('Owner: a person or a team').fill(HOSTILE[1]!)
    await page.keyboard.press('Enter')
    await page.getByText(HOSTILE[1]!, { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Disable …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click()
    await page.getByText('not enforced').waitFor()
    t.match(await stack.sql`SELECT owner, version, active_version FROM event_schemas WHERE project_id = ${stack.project}`, [{ owner: HOSTILE[1], version: 2, active_version: null }])
    t.notOk(await wasHacked(page))
    t.same(problems, [])
    await page.close()
  })

  await t.test('a draft over what somebody else stored meanwhile is not stored, and goes on from there', async (t) => {
    const { id } = (await stack.sql<{ id: number }[]>`SELECT id FROM event_schemas WHERE project_id = ${stack.project} AND event = ${NAME}`)[0]!
    const ask = async (body: object): Promise<{ version: number, schema: object }> => {
      const response = await fetch(`${stack.url}/api${home}/event_schemas/${id}/`, {
        method: 'PATCH', headers: { 'content-type': 'application/json', authorization: `Bearer ${stack.personalApiKey}` }, body: JSON.stringify(body)
      })
      return await response.json() as { version: number, schema: object }
    }
    const { page, problems } = await open(`${home}/schemas/${id}`)
    const editor = page.getByLabel('JSON Schema of the properties')
    await editor.fill('{ "required": ["mine"] }')
    await ask({ schema: { required: ['plan'], properties: { plan: { enum: ['theirs'] } } } })

    await page.getByRole('button', { name: 'Store a version' }).click()
    const alert = page.getByRole('alert')
    await alert.getByText('Not saved: another user has saved version 3.').waitFor()
    t.match(await alert.innerText(), /by admin@millrace\.localhost[\s\S]*based on version 2[\s\S]*properties › plan › enum/)
    t.equal(await editor.inputValue(), '{ "required": ["mine"] }', 'the draft is kept')
    t.ok(await page.getByRole('button', { name: 'Store a version' }).isDisabled())
    t.same(await findBarriers(page), [])
    await alert.getByRole('button', { name: 'Continue my draft on version 3' }).click()
    await page.getByRole('button', { name: 'Store a version' }).click()
    await page.getByText('Identical to version 4.').waitFor()
    t.match(await ask({}), { version: 4, schema: { required: ['mine'] } })

    await editor.fill('{ "required": ["mine too"] }')
    await ask({ schema: { required: ['theirs'] } })
    await page.getByRole('button', { name: 'Store a version' }).click()
    await alert.getByRole('button', { name: 'Discard my draft' }).click()
    await page.getByText('Identical to version 5.').waitFor()
    t.same(JSON.parse(await editor.inputValue()), { required: ['theirs'] })

    await ask({ schema: { required: ['plan', 'seats'] } })
    await page.getByRole('button', { name: 'Description …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
    await page.getByText('Identical to version 6.').waitFor()
    t.same(JSON.parse(await editor.inputValue()), { required: ['plan', 'seats'] }, 'a draft that nobody touched follows')
    t.same(problems.filter((problem) => !problem.includes('409')), [])
    await page.close()
  })

  await t.test('whoever leaves a draft that is not stored is asked first, and only then', async (t) => {
    const { page, problems } = await open(`${home}/schemas`)
    await page.getByRole('link', { name: NAME, exact: true }).click()
    const editor = page.getByLabel('JSON Schema of the properties')
    await editor.fill('{ "required": ["kept"] }')
    const dialog = page.getByRole('dialog', { name: 'Leave without saving?' })
    const isKept = async (): Promise<void> => {
      await dialog.getByRole('button', { name: 'Cancel' }).click()
      await whenClosed(dialog)
      t.equal(await editor.inputValue(), '{ "required": ["kept"] }')
      t.match(page.url(), /schemas\/\d+$/)
    }

    await page.getByRole('navigation').getByRole('link', { name: 'Rules' }).click()
    await dialog.waitFor()
    t.same(await findBarriers(page), [])
    await isKept()
    await page.goBack()
    await isKept()
    await page.getByRole('button', { name: 'Log out' }).click()
    await isKept()
    const asked = new Promise<string>((resolve) => page.once('dialog', (each) => {
      resolve(each.type())
      void each.dismiss()
    }))
    // Not page.reload(), which would wait for a page that is never left.
    await page.evaluate('void setTimeout(() => location.reload())')
    t.equal(await asked, 'beforeunload')
    t.equal(await editor.inputValue(), '{ "required": ["kept"] }')

    await page.goBack()
    await dialog.getByRole('button', { name: 'Leave' }).click()
    await page.getByRole('heading', { name: 'Schemas', level: 1 }).waitFor()
    await page.getByRole('link', { name: NAME, exact: true }).click()
    await page.getByText('Identical to version 6.').waitFor()
    await page.getByRole('navigation').getByRole('link', { name: 'Rules' }).click()
    await page.getByRole('heading', { name: 'Rules', level: 1 }).waitFor()
    t.equal(await dialog.count(), 0)

    await page.getByRole('link', { name: 'New rule' }).click()
    await page.getByLabel('Name, shown in receipts').fill('kept')
    await page.getByRole('link', { name: 'Rules', exact: true }).first().click()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Store the rule' }).click()
    await page.getByRole('heading', { name: 'kept', level: 1 }).waitFor()
    t.equal(await dialog.count(), 0, 'a stored draft may be left')
    await page.goto(`${stack.url}/console${home}/flags/new`)
    await page.getByLabel('Key in SDKs').fill('kept')
    await page.getByRole('link', { name: 'Flags', exact: true }).first().click()
    await dialog.getByRole('button', { name: 'Leave' }).click()
    await page.getByRole('heading', { name: 'Flags', level: 1 }).waitFor()
    t.same(problems, [])
    await page.close()
  })

  // Of this project: others of the stack store schemas meanwhile.
  const storedByHand = async (): Promise<unknown> => (await stack.sql`
    SELECT versions.schema FROM event_schema_versions AS versions JOIN event_schemas ON event_schemas.id = schema_id
    WHERE project_id = ${stack.project} AND event = 'by hand' ORDER BY versions.version DESC LIMIT 1`)[0]?.schema
  await t.test('a schema is made and changed by its fields, with the keyboard alone, and the JSON follows', async (t) => {
    const { page, problems } = await open(`${home}/schemas/new`)
    const hand = takeKeyboard(page)
    const editor = page.getByLabel('JSON Schema of the properties')
    const property = (name: string) => page.getByRole('group', { name: `Property ${name}`, exact: true })
    const draft = async (): Promise<unknown> => JSON.parse(await editor.inputValue())
    await hand.write(page.getByLabel('Name of the event'), 'by hand')
    await hand.write(page.getByLabel('Another property'), 'plan')
    await page.keyboard.press('Enter')
    await hand.choose(property('plan').getByLabel('Type'), 'string')
    await hand.press(property('plan').getByLabel('required'))
    await hand.write(page.getByLabel('Another property'), 'seats')
    await hand.press(page.getByRole('button', { name: 'Add it' }))
    await hand.choose(property('seats').getByLabel('Type'), 'integer')
    await hand.write(page.getByLabel('Another property'), 'gone')
    await page.keyboard.press('Enter')
    await hand.press(property('gone').getByRole('button', { name: 'Remove gone' }))
    await hand.press(page.getByLabel('No other properties'))
    const made = { type: 'object', required: ['plan'], properties: { plan: { type: 'string' }, seats: { type: 'integer' } }, additionalProperties: false }
    t.same(await draft(), made)
    t.same(await findBarriers(page), [])
    await hand.press(page.getByRole('button', { name: 'Store the schema' }))
    await page.getByRole('heading', { name: 'by hand', level: 1 }).waitFor()
    t.match(await storedByHand(), made)

    await editor.fill('{"required":["plan","typed"],"properties":{"plan":{"type":["string","null"]},"size":{"type":"number","minimum":1}}}')
    await property('size').getByText('with minimum').waitFor()
    await hand.choose(property('size').getByLabel('Type'), 'integer')
    await hand.press(property('typed').getByLabel('required'))
    t.equal(await property('plan').getByLabel('Type').evaluate((element: any) => element.selectedOptions[0].label), 'as the JSON says')
    t.same(await draft(), { required: ['plan'], properties: { plan: { type: ['string', 'null'] }, size: { type: 'integer', minimum: 1 } } })
    await page.setViewportSize({ width: 390, height: 800 })
    t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), 'it fits 390')
    await stack.sql`DELETE FROM event_schema_versions WHERE schema_id = (SELECT id FROM event_schemas WHERE event = 'by hand')`
    await stack.sql`DELETE FROM event_schemas WHERE event = 'by hand'`
    t.same([...problems, ...hand.problems], [])
    await page.close()
  })

  await t.test('a property that was typed and not added is stored with the draft', async (t) => {
    const { page, problems } = await open(`${home}/schemas/new`)
    const hand = takeKeyboard(page)
    const another = page.getByLabel('Another property')
    await hand.write(page.getByLabel('Name of the event'), 'by hand')
    await hand.write(another, 'plan')
    await hand.press(page.getByRole('button', { name: 'Store the schema' }))
    await page.getByRole('heading', { name: 'by hand', level: 1 }).waitFor()
    t.same(await storedByHand(), { type: 'object', required: [], properties: { plan: {} } })

    await page.getByText('Identical to version 1.').waitFor()
    await another.fill('plan')
    await page.getByText('Identical to version 1.').waitFor()
    await another.fill('seats')
    await page.getByText('Not saved yet, on version 1.').waitFor()
    await page.getByRole('link', { name: 'Schemas', exact: true }).first().click()
    await page.getByRole('dialog').getByText('Leave without saving?').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Store a version' }).click()
    await page.getByText('Identical to version 2.').waitFor()
    t.same(await storedByHand(), { type: 'object', required: [], properties: { plan: {}, seats: {} } })
    t.equal(await another.inputValue(), '')
    await page.getByRole('group', { name: 'Property seats', exact: true }).waitFor()
    await stack.sql`DELETE FROM event_schema_versions WHERE schema_id = (SELECT id FROM event_schemas WHERE event = 'by hand')`
    await stack.sql`DELETE FROM event_schemas WHERE event = 'by hand'`
    t.same([...problems, ...hand.problems], [])
    await page.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    const { id } = (await stack.sql<{ id: number }[]>`SELECT id FROM event_schemas WHERE project_id = ${stack.project}`)[0]!
    await checkScreens(t, screens, [`${home}/schemas`, `${home}/schemas/${id}`, `${home}/schemas/new`])
    const { page } = await open(`${home}/schemas/${id}`)
    await page.setViewportSize({ width: 360, height: 800 })
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByRole('region', { name: 'By property' }).waitFor()
    t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), 'a prediction fits 360')
    await page.close()
  })

  await t.test('a key that may only read is offered no change, and no values of events', async (t) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'reader', scopes: ['event_definition:read'], projectIds: [stack.project], expiresAt: null
    })
    const context = await browser.newContext()
    const { page } = await openPage(context, stack.url, `${home}/schemas`)
    await logIn(page, key)
    await page.getByRole('link', { name: NAME, exact: true }).click()
    await page.getByRole('heading', { name: 'Versions' }).waitFor()
    t.same(await page.locator('main').getByRole('button').allInnerTexts(), [])
    t.ok(await page.getByLabel('JSON Schema of the properties').getAttribute('readonly') !== null)
    await page.goto(`${stack.url}/console${home}/schemas/999999`)
    await page.getByRole('alert').getByText('Not found', { exact: false }).waitFor()
    await context.close()
  })

  await t.test('failed requests are reported, and known values stay', async (t) => {
    const { page } = await open(`${home}/schemas`)
    await page.getByRole('link', { name: NAME, exact: true }).click()
    await page.getByRole('button', { name: 'Check the draft' }).waitFor()
    await page.route('**/check/', async (route) => { await route.abort() })
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByRole('alert').getByText('Millrace does not answer').waitFor()
    await page.unroute('**/check/')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('do not meet it, and would').waitFor()

    const asked = Promise.withResolvers<undefined>()
    await page.route('**/check/', async (route) => {
      await asked.promise
      await route.continue()
    })
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByText('Counting events …').waitFor()
    await page.getByLabel('JSON Schema of the properties').fill('{}')
    asked.resolve(undefined)
    await page.getByRole('button', { name: 'Check the draft' }).waitFor()
    t.equal(await page.getByRole('region', { name: 'By property' }).count(), 0, 'what a check found is of the draft that is shown')
    await page.unroute('**/check/')
    await page.getByRole('button', { name: 'Check the draft' }).click()
    await page.getByText(/^All \d+ events meet it\.$/).waitFor()

    await page.getByRole('button', { name: 'Delete …' }).click()
    await page.getByLabel('Type delete').fill('delete')
    await page.keyboard.press('Enter')
    await page.getByText('No event has a schema yet').waitFor()
    await page.close()
  })

  await t.test('as many schemas as a project may have are shown by the page, and found by a search', async (t) => {
    await stack.sql`
      WITH made AS (
        INSERT INTO event_schemas (project_id, event) SELECT ${stack.project}, 'planted ' || n FROM generate_series(1, 500) n RETURNING id
      )
      INSERT INTO event_schema_versions (schema_id, version, schema) SELECT id, 1, '{}' FROM made`
    const { page, problems } = await open(`${home}/schemas`)
    await page.getByText('1 to 50 of 500').waitFor()
    t.equal(await page.locator('tbody tr').count(), 50)
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('51 to 100 of 500').waitFor()
    await page.getByRole('searchbox').fill('planted 477')
    await page.getByText('1 to 1 of 1').waitFor()
    t.match(page.url(), /search=planted/)
    t.same(problems, [])
    await page.close()
  })
})
