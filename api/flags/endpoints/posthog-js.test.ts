/** Unmodified posthog-js in a real browser, on a page of another origin, loads flags from our endpoints. */
import t, { type Test } from 'tap'
import { openPage, type SdkPage, shareBrowser } from '../../../test/sdk/open-page.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { addFlags, ask, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'

const VARIANTS = { variants: [{ key: 'control', rollout_percentage: 50 }, { key: 'test', rollout_percentage: 50 }] }

const FLAGS = [
  { key: 'on', filters: { groups: [{}], payloads: { true: '{"max":5}' } } },
  { key: 'off', filters: { groups: [] } },
  { key: 'of-servers', evaluation_runtime: 'server', filters: { groups: [{}], payloads: { true: '"secret"' } } },
  { key: 'pro', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] } },
  { key: 'sticky', filters: { groups: [{}], multivariate: VARIANTS }, ensure_experience_continuity: true },
  { key: 'fleeting', filters: { groups: [{}], multivariate: VARIANTS } }
]

async function openShop (t: Test): Promise<{ decide: TestDecide, page: SdkPage['page'] }> {
  const decide = await createTestDecide(t)
  await addFlags(decide, FLAGS)
  const { page, close } = await openPage(undefined, await shareBrowser(t))
  t.teardown(close)
  return { decide, page }
}

/** Starts the SDK and resolves with the flags that are on, of its first `onFeatureFlags`. */
async function start (page: SdkPage['page'], decide: TestDecide, options: object = {}): Promise<Record<string, unknown>> {
  return await page.evaluate(async ({ key, host, options }) => {
    const posthog = (globalThis as any).posthog
    return await new Promise<Record<string, unknown>>((resolve) => {
      posthog.init(key, { api_host: host, autocapture: false, disable_session_recording: true, ...options })
      posthog.onFeatureFlags((_: string[], values: Record<string, unknown>) => resolve(values))
    })
  }, { key: decide.projectKey, host: decide.url, options })
}

async function read (page: SdkPage['page'], flag: string): Promise<unknown> {
  return await page.evaluate((key) => (globalThis as any).posthog.getFeatureFlag(key), flag)
}

t.test('the page gets values, payloads and a notification', async (t) => {
  const { decide, page } = await openShop(t)

  const values = await start(page, decide)

  t.match(values, { on: true, sticky: String })
  t.equal(await read(page, 'on'), true)
  t.equal(await read(page, 'off'), false)
  t.equal(await read(page, 'nobody'), undefined)
  t.equal(await read(page, 'of-servers'), undefined)
  t.same(await page.evaluate(() => (globalThis as any).posthog.getFeatureFlagPayload('on')), { max: 5 })
})

t.test('flags are loaded again after identify and after a change of properties for flags', async (t) => {
  const { decide, page } = await openShop(t)
  await start(page, decide)

  await page.evaluate(() => { (globalThis as any).posthog.setPersonPropertiesForFlags({ plan: 'pro' }) })
  await waitFor(async () => await read(page, 'pro') === true)
  await decide.sql`UPDATE feature_flags SET filters = '{"groups": [{}]}' WHERE key = 'off'`
  await decide.refresh()
  await page.evaluate(() => { (globalThis as any).posthog.identify('ann') })
  await waitFor(async () => await read(page, 'off') === true)
  t.pass('both were noticed')
})

t.test('a bootstrapped anonymous user who identifies keeps the variant of a flag with continuity', async (t) => {
  const { decide, page } = await openShop(t)
  const { user, anonymous, variants } = await findPair(decide)
  const [sticky, fleeting] = variants
  await start(page, decide, {
    bootstrap: { distinctID: anonymous, isIdentifiedID: false, featureFlags: { sticky, fleeting } }
  })
  t.equal(await read(page, 'sticky'), sticky)

  await page.evaluate((id) => { (globalThis as any).posthog.identify(id) }, user)
  await waitFor(async () => await read(page, 'fleeting') !== fleeting)

  t.equal(await read(page, 'sticky'), sticky)
  const { body } = await ask(decide, '/flags/?v=2', { distinct_id: user })
  t.equal(body.flags.sticky.variant, sticky, 'a server that knows the user only agrees')
  t.not(body.flags.fleeting.variant, fleeting)
})

/** A user and an anonymous id that have different variants of both flags by themselves; those of the latter. */
async function findPair (decide: TestDecide): Promise<{ user: string, anonymous: string, variants: string[] }> {
  const variants = async (id: string): Promise<string[]> => {
    const { body } = await ask(decide, '/flags/?v=2', { distinct_id: id })
    return [body.flags.sticky.variant, body.flags.fleeting.variant]
  }
  const user = 'user-of-the-shop'
  const own = await variants(user)
  for (let i = 0; ; i++) {
    const anonymous = `anonymous-${i}`
    const other = await variants(anonymous)
    if (other[0] !== own[0] && other[1] !== own[1]) return { user, anonymous, variants: other }
  }
}
