import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { readRecordedSdks } from './recorded-requests.ts'

/** What an unmodified client does against Millrace, and the tests that show it. */
export interface MatrixRow {
  /** A package of package.json; its version comes from there. */
  client: string
  /** How it is used, where there are several ways. */
  use?: string
  shown: string
  file: string
  /** Full titles of tests of that file. */
  titles: string[]
}

const BROWSER = 'test/sdk/browser.system.test.ts'
const FLAGS = 'api/flags/endpoints'
const SEGMENT = 'ingest/server/segment.test.ts'
const VISIT = 'no error, no failed request, each event of a visit stored once'

/** Clients that run as they were published, in Node or in Chromium. */
export const MATRIX: readonly MatrixRow[] = [
  {
    client: 'posthog-js',
    use: 'snippet; snippet with configuration; npm',
    shown: 'page views and leaves, autocapture, `capture`, `identify`, flags; each event once',
    file: BROWSER,
    titles: ['the snippet', 'the snippet that loads configuration and SDK in one', 'posthog-js from npm'].map((how) => `${how}: ${VISIT}`)
  },
  {
    client: 'posthog-js',
    use: '`capture_exceptions`, `capture_dead_clicks`, web vitals',
    shown: 'the scripts load, exceptions are stored',
    file: BROWSER,
    titles: ['what a page switches on by itself is loaded and stored']
  },
  {
    client: 'posthog-js',
    use: 'events in the queue of a page that is left',
    shown: '`sendBeacon`, each event once',
    file: BROWSER,
    titles: ['what waits in the queue of posthog-js when a page is reloaded goes by sendBeacon, once']
  },
  {
    client: 'posthog-js',
    use: 'a clock that is an hour behind',
    shown: 'true times, also after a retry',
    file: BROWSER,
    titles: ['a clock that is an hour behind: events have their true time, at the first attempt and after a retry']
  },
  {
    client: 'posthog-js',
    use: '`cookieless_mode`',
    shown: 'visitors are distinguished, the browser keeps nothing',
    file: BROWSER,
    titles: ['visitors without cookies are distinguished, and nothing of them is kept in the browser']
  },
  {
    client: 'posthog-js',
    use: 'flags',
    shown: 'values, payloads, continuity after `identify`',
    file: `${FLAGS}/posthog-js.test.ts`,
    titles: [
      'the page gets values, payloads and a notification',
      'a bootstrapped anonymous user who identifies keeps the variant of a flag with continuity'
    ]
  },
  {
    client: 'posthog-js-lite',
    shown: '`capture`, `identify`; the queue is kept over a reload, each event once',
    file: BROWSER,
    titles: ['posthog-js-lite keeps its queue over a reload, and every event is stored once']
  },
  {
    client: 'posthog-node',
    shown: '1,000 compressed events, identify, alias, groups',
    file: 'test/sdk/capture.test.ts',
    titles: [
      '1,000 compressed events of posthog-node are each stored once, as sent',
      'identify, alias and groupIdentify of posthog-node are stored as their events'
    ]
  },
  {
    client: 'posthog-node',
    use: '`POSTHOG_CAPTURE_MODE=v1`',
    shown: '101 events of Capture V1, each once',
    file: 'ingest/server/capture-v1.test.ts',
    titles: ['unmodified posthog-node in mode v1: every event is stored once, as by the older path']
  },
  {
    client: '@posthog/ai',
    shown: 'generations of language models, whole with `enableFullAiCapture`',
    file: 'test/sdk/other-clients.system.test.ts',
    titles: ['with its usual', 'whole'].map((how) => `@posthog/ai: a generation is stored once, ${how} contents`)
  },
  {
    client: '@flags-sdk/posthog',
    shown: 'flags, variants, payloads; the list for its explorer',
    file: 'test/sdk/other-clients.system.test.ts',
    titles: ['@flags-sdk/posthog: flags, variants and payloads, and the list of flags for its explorer']
  },
  {
    client: 'posthog-node',
    use: 'flags',
    shown: 'remote and local evaluation, remote configuration',
    file: `${FLAGS}/posthog-node.test.ts`,
    titles: ['posthog-node reads values, variants and payloads', 'posthog-node evaluates locally, and requests what it cannot decide']
  },
  {
    client: 'posthog-node',
    use: 'as an oracle',
    shown: 'random flags have the values it computes',
    file: `${FLAGS}/posthog-node.test.ts`,
    titles: ['decide and flags agree with what posthog-node computes from our definitions']
  },
  {
    client: '@openfeature/ofrep-provider',
    shown: 'the same values as `/flags`',
    file: `${FLAGS}/ofrep.test.ts`,
    titles: ['@openfeature/ofrep-provider has the values that /flags answers, for many users']
  },
  {
    client: '@segment/analytics-node',
    shown: 'every kind of message ([Segment\'s SDKs](../../send/connect-sdk.md#segments-sdks))',
    file: SEGMENT,
    titles: ['unmodified @segment/analytics-node: each kind of message is a row of its own']
  },
  {
    client: '@rudderstack/rudder-sdk-node',
    shown: 'every kind of message',
    file: SEGMENT,
    titles: ['unmodified @rudderstack/rudder-sdk-node']
  }
]

/** The test of what SDKs send that cannot run here; its titles are made of name, version and feature. */
export const RECORDED_TEST = 'test/sdk/recorded-requests.test.ts'

/** Every test that the lists stand on: file and full title. */
export function listShownTests (): { file: string, title: string }[] {
  return [
    ...MATRIX.flatMap(({ file, titles }) => titles.map((title) => ({ file, title }))),
    ...readRecordedSdks().flatMap(({ name, version, requests }) =>
      requests.map(({ feature }) => ({ file: RECORDED_TEST, title: `${name} ${version}: ${feature}` })))
  ]
}

/** The page with its lists as they must read now. */
export function renderLists (page: string): string {
  return [['unmodified', renderUnmodified()], ['recorded', renderRecorded()]].reduce((text, [name, table]) => text.replace(
    new RegExp(`(<!-- ${name}:start -->\\n)[^]*(<!-- ${name}:end -->)`), (_, start: string, end: string) => `${start}${table}\n${end}`), page)
}

function renderUnmodified (): string {
  return [...Map.groupBy(MATRIX, ({ client }) => client)].map(([client, rows]) =>
    `- \`${client}\` ${readVersion(client)}: ${rows.map(({ use, shown }) => use === undefined ? shown : `${shown} (${use})`).join(' · ')}`).join('\n')
}

function renderRecorded (): string {
  return readRecordedSdks().map(({ name, version, requests }) => {
    const paths = [...new Set(requests.map(({ path }) => `\`${describePath(path)}\``))]
    return `- [${name}](../../../test/sdk/recorded/${name}.http) ${version}: ${paths.join(', ')}`
  }).join('\n')
}

/** Without keys and with the version of the answer alone. */
function describePath (path: string): string {
  const [bare = '', query = ''] = path.split('?')
  const version = query.split('&').find((part) => part.startsWith('v='))
  return bare.replace('{{project key}}', '<key>').replace('/settings/', '/<key>/') + (version === undefined ? '' : `?${version}`)
}

/** Of the installed package. */
function readVersion (name: string): string {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const file = folders.map((folder) => path.join(folder, name, 'package.json')).find((file) => existsSync(file))
  if (file === undefined) throw new Error(`${name} is not installed`)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
