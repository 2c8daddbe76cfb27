/** Dead letters in the console: found, opened, corrected, purged and replayed by mouse and keyboard. */
import t from 'tap'
import { encodePayload, makeEvent } from '../../pipeline/testing/publish-events.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ROW_LAYOUT } from '../../schema/wire/event-row.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import type { Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, HOSTILE, openConsole, wasHacked, whenClosed } from './open-console.ts'

/** Letters of one cause, one whose body is not JSON, and one event that ClickHouse refused. */
async function plantDeadLetters (stack: Stack): Promise<void> {
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  for (let index = 0; index < 3; index++) {
    await publishDeadLetter(connection, {
      stage: 'persons', reason: 'invalid_update', error: `no such person ${HOSTILE[0]}`, subject: 'persons.0', sequence: index + 1, project: 1,
      event: index < 2 ? HOSTILE[0]! : 'bytes', headers: {}, id: `planted-${index}`,
      body: index < 2 ? Buffer.from(JSON.stringify({ name: HOSTILE[1] })) : Buffer.from([0xff, 0xfe])
    })
  }
  const refused = makeEvent({ event: 'paid', distinct_id: HOSTILE[1]!, properties: '{"plan":"wrong"}' })
  await publishDeadLetter(connection, {
    stage: 'writer', reason: 'refused', error: 'no such plan', subject: 'events.live.0', sequence: 1, project: 1,
    event: refused.event, uuid: refused.uuid, headers: { [HEADER.rows]: '1', [HEADER.layout]: String(ROW_LAYOUT) }, id: 'planted-event',
    body: encodePayload([refused])
  })
  await connection.close()
}

t.test('dead letters in the console', async (t) => {
  const screens = await openConsole(t)
  const { stack, open } = screens
  await plantDeadLetters(stack)

  await t.test('health says that they wait, and leads to them', async (t) => {
    const { page, problems } = await open('/health')
    await page.locator('.verdict.waiting').getByText('Dead letters waiting').waitFor()
    await page.locator('.stage.waiting').getByRole('heading', { name: /^Dead letters waiting/ }).waitFor()
    await page.getByRole('listitem').filter({ hasText: '4 dead letters wait.' }).getByRole('link', { name: 'See them' }).click()
    await page.getByRole('heading', { name: 'Dead letters', exact: true }).waitFor()
    t.match(page.url(), /\/projects\/1\/dead-letters$/)
    t.same(problems, [])
    await page.close()
  })

  await t.test('a dead letter is found, opened and replayed after a dry run', async (t) => {
    const { page, problems } = await open('/projects/1/dead-letters')
    const row = page.getByRole('row', { name: /^<img/ })
    t.match(await row.innerText(), /persons · invalid_update[\s\S]*no such person <img[\s\S]*2/)
    await row.getByRole('link').click()
    await page.getByText('1 to 2 of 2').waitFor()
    await page.getByRole('link', { name: '1', exact: true }).click()
    await page.getByText('"name": "\\"><script>globalThis.hacked=1</script>"').waitFor()
    await page.goBack()
    await page.getByText('1 to 2 of 2').waitFor()
    await page.goBack()
    await page.getByRole('link', { name: 'bytes' }).click()
    await page.getByRole('link', { name: '3', exact: true }).click()
    await page.getByText('The content is neither events nor JSON').waitFor()
    await page.getByRole('button', { name: 'Purge …' }).click()
    const purge = page.getByRole('dialog')
    t.ok(await purge.getByRole('button', { name: 'Purge 1' }).isDisabled(), 'not before the word is typed')
    await purge.getByLabel('Type purge to go on').fill('purge')
    await page.keyboard.press('Enter')
    await whenClosed(purge)
    await waitFor(async () => await page.getByRole('link', { name: 'bytes' }).count() === 0)

    await page.getByRole('link', { name: 'Dead letters' }).first().click()
    await row.getByRole('button', { name: /^Replay 2 of/ }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('2 dead letters would be published to the stream again.').waitFor()
    await page.keyboard.press('Escape')
    await whenClosed(dialog)
    t.ok(await row.isVisible(), 'nothing happened')
    await row.getByRole('button', { name: /^Replay 2 of/ }).click()
    await dialog.getByRole('button', { name: 'Replay' }).click()
    await dialog.getByText('2 replayed.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    t.notOk(await wasHacked(page))
    t.same(problems, [])
    await page.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, ['/projects/1/dead-letters'])
  })
})
