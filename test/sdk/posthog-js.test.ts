import t from 'tap'
import { startStack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { openPage } from './open-page.ts'

interface StoredEvent {
  event: string
  session_id: string
  current_url: string
  lib: string
  browser: string
  plan: string
}

t.setTimeout(120_000)

// The runner ends the file only when nothing is left running, so the stack is started here and stopped at the end.
const stack = await startStack()
t.teardown(async () => { await stack.stop() })

t.test('a page view and a custom event of posthog-js arrive with their promoted columns filled', async (t) => {
  const { page, url, close } = await openPage()
  t.teardown(close)

  await page.evaluate(({ key, host }) => {
    const posthog = (globalThis as any).posthog
    posthog.init(key, {
      api_host: host,
      autocapture: false,
      disable_session_recording: true,
      // The SDK keeps quiet in automated browsers otherwise.
      opt_out_useragent_filter: true
    })
    posthog.capture('plan chosen', { plan: 'pro' })
  }, { key: stack.projectApiKey, host: stack.url })

  let stored: StoredEvent[] = []
  await waitFor(async () => {
    stored = await stack.select<StoredEvent>(
      `SELECT event, session_id, current_url, lib, browser, JSONExtractString(properties, 'plan') AS plan
       FROM events WHERE event IN ('$pageview', 'plan chosen') ORDER BY event`)
    return stored.length >= 2
  }, { timeoutMs: 20_000 })

  t.match(stored, [
    { event: '$pageview', current_url: url, lib: 'web', browser: /Chrome/, plan: '' },
    { event: 'plan chosen', current_url: url, lib: 'web', browser: /Chrome/, plan: 'pro' }
  ])
  t.match(stored[0]?.session_id, /^[0-9a-f-]{36}$/)
  t.equal(stored[0]?.session_id, stored[1]?.session_id)
})

t.end()
