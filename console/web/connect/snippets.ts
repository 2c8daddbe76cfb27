/** Code that sends a first event, filled with the key of the project and the address of this Millrace. */
import { quote } from '../format.ts'

export interface Snippet {
  id: string
  name: string
  /** Command that installs it; empty when nothing is to be installed. */
  install: string
  code: string
  hint: string
}

/**
 * The snippets of every SDK, in the order in which most people need them.
 *
 * @param key  Project API key. It is text like any other: in code it is written as a string of that language.
 * @param host  Base URL, such as `https://events.example.com`.
 */
export function buildSnippets (key: string, host: string): Snippet[] {
  // A string of JSON is one of JavaScript, Python, Go and Java, too; `<` would end a script in a page.
  const [text, url] = [JSON.stringify(key).replaceAll('<', '\\u003c'), JSON.stringify(host)]
  return [
    {
      id: 'curl', name: 'curl', install: '', hint: 'Sends one event now, from a shell.',
      code: `curl ${quote(`${host}/capture/`)} -H 'content-type: application/json' \\\n  -d ${quote(JSON.stringify({ api_key: key, event: 'hello', distinct_id: 'me' }))}`
    },
    {
      id: 'page', name: 'Web page', install: '', hint: 'Put it in the head of every page. Page views and clicks are captured automatically.',
      code: pageSnippet(text, url)
    },
    {
      id: 'js', name: 'posthog-js', install: 'npm install posthog-js', hint: 'For bundled pages.',
      code: `import posthog from 'posthog-js'\n\nposthog.init(${text}, { api_host: ${url}, defaults: '2026-01-30' })\nposthog.capture('hello')`
    },
    {
      id: 'node', name: 'Node', install: 'npm install posthog-node', hint: 'Call shutdown before the process exits, or queued events are lost.',
      code: `import { PostHog } from 'posthog-node'\n\nconst client = new PostHog(${text}, { host: ${url} })\nclient.capture({ distinctId: 'me', event: 'hello' })\nawait client.shutdown()`
    },
    {
      id: 'python', name: 'Python', install: 'pip install posthog', hint: 'Call shutdown before the process exits, or queued events are lost.',
      code: `from posthog import Posthog\n\nposthog = Posthog(${text}, host=${url})\nposthog.capture('hello', distinct_id='me')\nposthog.shutdown()`
    },
    {
      id: 'go', name: 'Go', install: 'go get github.com/posthog/posthog-go', hint: '',
      code: `client, _ := posthog.NewWithConfig(${text}, posthog.Config{Endpoint: ${url}})\ndefer client.Close()\nclient.Enqueue(posthog.Capture{DistinctId: "me", Event: "hello"})`
    },
    {
      id: 'segment', name: 'Segment', install: 'npm install @segment/analytics-node', hint: 'The write key is the project key.',
      code: `import { Analytics } from '@segment/analytics-node'\n\nconst analytics = new Analytics({ writeKey: ${text}, host: ${url} })\nanalytics.track({ userId: 'me', event: 'hello' })\nawait analytics.closeAndFlush()`
    },
    {
      id: 'rudderstack', name: 'RudderStack', install: 'npm install @rudderstack/rudder-sdk-node', hint: 'The write key is the project key.',
      code: `import RudderAnalytics from '@rudderstack/rudder-sdk-node'\n\nconst analytics = new RudderAnalytics(${text}, { dataPlaneUrl: ${url} })\nanalytics.track({ userId: 'me', event: 'hello' })\nanalytics.flush()`
    }
  ]
}

/** Queues calls until the SDK has loaded, from this origin. */
function pageSnippet (key: string, url: string): string {
  return `<script>
  (function (posthog) {
    if (window.posthog) return
    window.posthog = posthog
    posthog._i = []
    posthog.__SV = 1
    ;['capture', 'identify', 'alias', 'group', 'reset', 'register', 'unregister', 'onFeatureFlags', 'captureException',
      'opt_in_capturing', 'opt_out_capturing'
    ].forEach(function (name) {
      posthog[name] = function () { posthog.push([name].concat(Array.prototype.slice.call(arguments))) }
    })
    posthog.init = function (key, options) {
      posthog._i.push([key, options, 'posthog'])
      var script = document.createElement('script')
      script.async = true
      script.src = options.api_host + '/static/array.js'
      document.head.appendChild(script)
    }
  })([])

  posthog.init(${key}, { api_host: ${url}, defaults: '2026-01-30' })
</script>`
}
