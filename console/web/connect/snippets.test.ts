import t from 'tap'
import { buildSnippets } from './snippets.ts'

t.test('every snippet has the key of the project and the address of this Millrace', async (t) => {
  const snippets = buildSnippets('phc_key', 'https://events.example.com')

  t.same(new Set(snippets.map(({ id }) => id)).size, snippets.length)
  for (const { name, code } of snippets) {
    t.match(code, 'phc_key', name)
    t.match(code, 'https://events.example.com', name)
  }
})

t.test('a key with quotes stays one string of the language, and ends no script', async (t) => {
  const byId = Object.fromEntries(buildSnippets('a\'b"</script>', 'http://127.0.0.1:1').map((snippet) => [snippet.id, snippet.code]))

  t.match(byId.curl, '{"api_key":"a' + "'\\''" + 'b\\"</script>","event"')
  t.match(byId.node, 'new PostHog("a\'b\\"\\u003c/script>"')
  t.equal(byId.page?.split('</script>').length, 2)
})
