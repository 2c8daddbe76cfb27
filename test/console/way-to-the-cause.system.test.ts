/**
 * From the first page to the cause, by what the pages say and lead to: whoever has never seen the console finds a rule,
 * a schema and a wrong key within a few clicks.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import type { RunningStack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { askUntil, type ConsoleUnderTest, findBarriers, openConsole, send } from './open-console.ts'

const RITA = 'f5a46f41-8418-40c0-81a5-cb582adf86f1'
const QUENTIN = '35455483-a1c4-440d-a42d-6acb055f7394'

async function manage (
  { url, personalApiKey }: RunningStack, method: string, path: string, body: object
): Promise<{ id: number }> {
  const response = await fetch(`${url}/api/projects/1/${path}`, {
    method, headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
  })
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return await response.json() as { id: number }
}

async function enforce ({ stack }: ConsoleUnderTest): Promise<void> {
  const rule = await manage(stack, 'POST', 'rules/', {
    name: 'no test orders', condition: { type: 'event', value: 'order paid' }, actions: [{ type: 'drop' }]
  })
  await manage(stack, 'PATCH', `rules/${rule.id}/`, { active_version: 1 })
  const schema = await manage(stack, 'POST', 'event_schemas/', {
    event: 'signed up', mode: 'quarantine', owner: 'shop', schema: { properties: { seats: { type: 'integer' } } }
  })
  await manage(stack, 'PATCH', `event_schemas/${schema.id}/`, { active_version: 1 })
  // Ingest follows within a second; until then it stores what it gets.
  await waitFor(async () => {
    await send(stack, [{ event: 'order paid' }, { event: 'signed up', properties: { seats: 'many' } }])
    const [row] = await stack.select<{ n: number }>(
      "SELECT uniqExact(reason) AS n FROM ingestion_warnings WHERE reason IN ('rule_dropped', 'schema_quarantined')")
    return Number(row?.n) === 2
  })
}

/** Opens Health, goes to Find by the link in its text, and asks until the receipt says it. */
async function findFromHealth ({ open }: ConsoleUnderTest, uuid: string, answer: RegExp): Promise<Page> {
  const { page } = await open('/')
  await page.locator('main').getByRole('link', { name: 'Find an event' }).click()
  await askUntil(async () => {
    await page.getByRole('searchbox').fill(uuid)
    await page.keyboard.press('Enter')
  }, page.getByText(answer))
  return page
}

t.test('from the first page to the cause', async (t) => {
  const screens = await openConsole(t)
  const { stack, open } = screens
  await enforce(screens)
  await send(stack, [
    { event: 'order paid', distinct_id: 'rita', uuid: RITA }, { event: 'signed up', distinct_id: 'quentin', uuid: QUENTIN, properties: { seats: 'three' } }
  ] as never)

  await t.test('what a rule drops leads to the rule', async (t) => {
    const page = await findFromHealth(screens, RITA, /Dropped by a rule\. .*change the rule\. The rule is called no test orders\./)
    t.same(await findBarriers(page), [])
    await page.getByRole('link', { name: 'Rule no test orders' }).click()
    await page.getByRole('heading', { level: 1, name: 'no test orders' }).waitFor()
    await page.close()
  })

  await t.test('a rule that is gone is said to be', async () => {
    const { page } = await open('/projects/1/rules?name=another')
    await page.getByText('The rule another no longer exists.').waitFor()
    await page.getByRole('link', { name: 'no test orders' }).waitFor()
    await page.close()
  })

  await t.test('what does not meet its schema says where, and leads to the letter and to the schema', async () => {
    const page = await findFromHealth(screens, QUENTIN, /does not meet the schema of its event.*\/seats type "three"/)
    await page.getByRole('link', { name: /^Dead letter \d+$/ }).waitFor()
    await page.getByRole('link', { name: 'Schema of signed up' }).click()
    await page.getByRole('link', { name: 'signed up', exact: true }).waitFor()
    await page.close()
  })

  await t.test('health leads to what was dropped and refused, with the reason in words', async (t) => {
    await t.rejects(send(stack, [{ event: 'lost' }], 'phc_key_of_nobody'), { message: /401/ })
    const { page } = await open('/health')
    await page.getByText('Life of an event').waitFor()
    t.same(await findBarriers(page), [])
    await page.getByRole('main').getByRole('link', { name: 'Warnings' }).click()
    await page.getByRole('heading', { level: 1, name: 'Warnings' }).waitFor()
    await page.getByText('wrong key', { exact: true }).waitFor()
    await page.getByText('Dropped by a rule.').waitFor()
    await page.close()
  })

  await t.test('beside earlier events, refused requests are shown, which may have contained the missing one', async (t) => {
    await send(stack, [{ event: 'paid before', distinct_id: 'olga' }])
    const { page } = await open('/projects/1/find')
    await askUntil(async () => {
      await page.getByRole('searchbox').fill('olga')
      await page.keyboard.press('Enter')
    }, page.locator('main', { hasText: 'It is stored and visible to queries.' })
      .getByRole('heading', { name: /^Still missing an event\?/ }))
    await page.getByText(/1 request was refused with an unknown key/).waitFor()
    t.same(await findBarriers(page), [])
    await page.getByRole('main').getByRole('link', { name: 'Usage' }).waitFor()
    await page.close()
  })

  await t.test('health says that it waits for a process, before it knows which', async (t) => {
    const page = await screens.context.newPage()
    const seen = Promise.withResolvers<undefined>()
    await page.route('**/api/status', async (route) => {
      await seen.promise
      await route.continue().catch(() => {})
    })
    await page.goto(`${stack.url}/console/health`)
    const notice = page.getByText('A process is slow to answer.')
    await notice.waitFor()
    seen.resolve(undefined)
    await page.getByText('Life of an event').waitFor()
    t.equal(await notice.count(), 0, 'it goes when the processes are known')
    await page.close()
  })

  await t.test('a row of live events opens wherever it is pressed', async () => {
    const { page } = await open('/projects/1/live')
    const cell = page.getByRole('cell', { name: 'dead letter: schema not met' }).first()
    await askUntil(async () => await send(stack, [{ event: 'signed up', distinct_id: 'quentin', properties: { seats: 'many' } }]), cell)
    await cell.click()
    await page.getByRole('dialog').getByText('Value at fault').waitFor()
    await page.close()
  })
})
