/**
 * Why an event is missing, found in the console by whoever knows its uuid or its distinct id: every way in
 * which an event can go astray is planted, and "Find an event" is asked.
 */
import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import t from 'tap'
import type { Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { askUntil, checkScreens, type ConsoleUnderTest, findBarriers, openConsole, send } from './open-console.ts'

async function post (stack: Stack, path: string, event: object, headers: Record<string, string> = {}): Promise<number> {
  const body = JSON.stringify({ api_key: stack.projectApiKey, distinct_id: 'ann', ...event })
  const response = await fetch(stack.url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
  await response.arrayBuffer()
  return response.status
}

async function manage ({ url, personalApiKey }: Stack, method: string, path: string, body: object): Promise<any> {
  const response = await fetch(`${url}/api/${path}`, {
    method, headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
  })
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return await response.json()
}

/** Asks again and again until the answer says it. */
async function find ({ open }: Pick<ConsoleUnderTest, 'open'>, text: string, answers: readonly RegExp[]): Promise<Page> {
  const { page } = await open('/projects/1/find')
  await askUntil(async () => {
    await page.getByRole('searchbox').fill(text)
    await page.keyboard.press('Enter')
  }, ...answers.map((answer) => page.locator('main').getByText(answer)))
  return page
}

t.test('why an event is missing', async (t) => {
  const screens = await openConsole(t)
  const { stack, open } = screens
  const says = async (text: string, ...answers: RegExp[]): Promise<void> => {
    const page = await find(screens, text, answers)
    t.ok(true, text)
    await page.close()
  }
  await send(stack, [{ event: 'opened' }])

  await t.test('refused before anybody looked at it: a wrong key, a wrong path, a body that cannot be read', async (t) => {
    t.equal(await post(stack, '/capture/', { event: 'of nobody', api_key: 'phc_key_of_nobody' }), 401)
    t.equal(await post(stack, '/captur/', { event: 'went astray' }), 404)
    const { status } = await fetch(`${stack.url}/capture/`, { method: 'POST', body: '{"event":', headers: { 'content-type': 'application/json' } })
    t.equal(status, 400)
    const large = JSON.stringify({ api_key: stack.projectApiKey, event: 'heavy', distinct_id: 'ann', properties: { text: 'x'.repeat(20_100_000) } })
    t.equal((await fetch(`${stack.url}/capture/`, { method: 'POST', body: large, headers: { 'content-type': 'application/json' } })).status, 413)
    await says('heavy', /1 request was refused because the body was too large/)
    await says('of nobody', /1 request was refused with an unknown key \(phc_key_… \(17 characters\)\)/)
    await says('went astray', /1 request was refused to a path that does not exist \(\/captur\/\)/)
    await says(randomUUID(), /Unknown event/, /1 request was refused because the body could not be read/)

    const { id } = await manage(stack, 'POST', 'projects/', { name: 'Quiet', timezone: 'UTC' })
    const { page } = await open(`/projects/${id}/connect`)
    await page.getByText('Waiting for the first event').waitFor()
    await page.getByText(/refused with an unknown key/).waitFor()
    await page.close()
  })

  await t.test('dropped: by a rule, by a schema, without a name', async (t) => {
    const rule = await manage(stack, 'POST', 'projects/1/rules/', {
      name: 'no tests', condition: { type: 'event', value: 'internal test' }, actions: [{ type: 'drop' }]
    })
    await manage(stack, 'PATCH', `projects/1/rules/${rule.id}/`, { active_version: 1 })
    const schema = await manage(stack, 'POST', 'projects/1/event_schemas/', {
      event: 'strict', mode: 'reject', owner: 'shop', schema: { required: ['plan'] }
    })
    await manage(stack, 'PATCH', `projects/1/event_schemas/${schema.id}/`, { active_version: 1 })
    // Ingest follows within a second; until then it stores what it gets.
    const dropped = async (event: string): Promise<void> => {
      await waitFor(async () => {
        await send(stack, [{ event, distinct_id: `of ${event}`, uuid: randomUUID() } as never])
        const rows = await stack.select<{ n: string }>(`SELECT count() AS n FROM ingestion_warnings WHERE effect = 'dropped' AND arrayExists(each -> each.event = '${event}', samples)`)
        return Number(rows[0]!.n) > 0
      })
    }
    await Promise.all([dropped('internal test'), dropped('strict')])
    await says('of internal test', /Dropped by a rule\./, /no tests/)
    await says('of strict', /Dropped: it violates its schema, whose mode is reject\./)
    await send(stack, [{ event: '', distinct_id: 'nameless', uuid: randomUUID() } as never])
    await says('nameless', /Dropped: it has no name\./)
  })

  await t.test('kept as a dead letter, for replay', async () => {
    const schema = await manage(stack, 'POST', 'projects/1/event_schemas/', {
      event: 'kept aside', mode: 'quarantine', owner: 'shop', schema: { required: ['plan'] }
    })
    await manage(stack, 'PATCH', `projects/1/event_schemas/${schema.id}/`, { active_version: 1 })
    const { page } = await open('/projects/1/find?distinct_id=of+kept+aside')
    await askUntil(async () => {
      await send(stack, [{ event: 'kept aside', distinct_id: 'of kept aside' }])
      await page.reload()
    }, page.getByText(/is kept as a dead letter/))
    await page.close()
  })

  await t.test('stored, but not where one looks: twice, long ago, as a bot', async (t) => {
    const uuid = randomUUID()
    await send(stack, [{ event: 'twice', uuid } as never])
    await send(stack, [{ event: 'twice', uuid } as never])
    await says(uuid, /It is stored and visible to queries\..*It came 1 more time, and was counted once\./)
    await send(stack, [{ event: 'old', distinct_id: 'long ago', timestamp: '2015-05-05T00:00:00Z' }, { event: 'old', distinct_id: 'epoch', timestamp: '1970-01-01T00:00:00Z' }] as never)
    await says('long ago', /2015-05-05/)
    await says('epoch', /2000-01-01/)
    const crawled = randomUUID()
    t.equal(await post(stack, '/capture/', { event: 'crawled', uuid: crawled }, { 'user-agent': 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)' }), 200)
    await says(crawled, /is_bot +1: a crawler/)
  })

  await t.test('text typed while the page is still being drawn stays', async (t) => {
    for (const [path, name] of [['find', 'Uuid or distinct id'], ['live', 'Event'], ['flags', 'Search flags']] as const) {
      const page = await screens.context.newPage()
      // As soon as the field is in the document, before anything runs that waits until it was painted.
      await page.addInitScript(`new MutationObserver((_, observer) => {
        const field = [...document.querySelectorAll('input')].find((each) => (each.ariaLabel ?? each.labels[0]?.textContent ?? '').includes('${name}'))
        if (field === undefined) return
        observer.disconnect()
        field.value = 'early'
        field.dispatchEvent(new Event('input', { bubbles: true }))
      }).observe(document, { childList: true, subtree: true })`)
      await page.goto(`${stack.url}/console/projects/1/${path}`)
      const field = page.getByLabel(name).first()
      await field.waitFor()
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 100)))')
      t.equal(await field.inputValue(), 'early', path)
      await page.close()
    }
  })

  await t.test('the button that asks again stays in the window for whoever is at it by keyboard', async (t) => {
    const uuid = randomUUID()
    await send(stack, [{ event: 'patient', uuid } as never])
    const { page } = await open('/projects/1/find')
    await page.setViewportSize({ width: 1000, height: 250 })
    const answer = Promise.withResolvers<void>()
    await page.route(`**/*${uuid}*`, async (route) => {
      await answer.promise
      await route.continue()
    })
    await page.getByRole('searchbox').fill(uuid)
    await page.keyboard.press('Enter')
    const again = page.getByRole('button', { name: 'Ask again' })
    await again.focus()
    answer.resolve()
    await page.getByRole('heading', { name: 'As stored' }).waitFor()
    const { y } = (await again.boundingBox())!
    t.ok(y < 250, `${y} of 250 pixels`)
    t.ok(await again.evaluate((button: any) => button.ownerDocument.activeElement === button))
    await page.unrouteAll()
    await page.close()
  })

  await t.test('refused for what the project may send: a quota', async () => {
    await manage(stack, 'PATCH', 'projects/1/quota/', { events_per_second: 1, burst: 1 })
    await waitFor(async () => await post(stack, '/capture/', { event: 'too many' }) === 429)
    await stack.sql`DELETE FROM project_quotas`
    await says('never came', /requests? (?:was|were) refused because the project sent too many events a second/)
  })

  await t.test('warnings have what belongs to no project, for keys of all projects', async (t) => {
    const { page } = await open('/projects/1/warnings')
    await page.getByText('unknown path').click()
    await page.getByText('/captur/').waitFor()
    await page.getByText('wrong key').waitFor()
    t.same(await findBarriers(page), [])
    await page.close()
  })

  await t.test('the answers are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, ['/projects/1/find?distinct_id=of+strict', '/projects/1/find?distinct_id=nothing'])
  })
})
