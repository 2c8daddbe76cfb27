import t from 'tap'
import { takeKeyboard } from './hands.ts'
import { openPage, openProject } from './open-console.ts'
import { menu, tellStory } from './tell-story.ts'

t.test('the whole story, by keyboard alone, with the focus in sight at every stop', async (t) => {
  const screens = await openProject(t)
  await tellStory(t, screens, takeKeyboard)
  const { stack, browser } = screens

  await t.test('the menu folds away where there is no room, and is opened and left by keyboard', async (t) => {
    const context = await browser.newContext({ viewport: { width: 360, height: 740 } })
    const { page } = await openPage(context, stack.url, '/health')
    const hand = takeKeyboard(page)
    await hand.write(page.getByLabel('Personal API key'), stack.personalApiKey)
    await page.keyboard.press('Enter')
    await page.getByText('Captures are answered').waitFor()
    const fold = page.getByRole('button', { name: /^Menu/ })
    const flags = menu(page, 'Flags')
    t.notOk(await flags.isVisible())

    await hand.press(fold)
    t.ok(await flags.isVisible())
    t.equal(await fold.getAttribute('aria-expanded'), 'true')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Escape')
    t.notOk(await flags.isVisible())
    await t.resolves(page.locator('button:focus', { hasText: /^Menu/ }).waitFor(), 'the focus is back')
    await hand.press(fold)
    await hand.press(flags)
    await page.getByRole('heading', { name: 'Flags', level: 1 }).waitFor()
    await t.resolves(flags.waitFor({ state: 'hidden' }), 'it is folded again')
    await t.resolves(page.locator('#content:focus').waitFor(), 'and the focus is at the content')
    t.same(hand.problems, [])
    await context.close()
  })
})
