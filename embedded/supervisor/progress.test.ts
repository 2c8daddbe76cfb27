import { chmodSync, closeSync, openSync, statSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { createProgress, keepOutputToOwner } from './progress.ts'

t.test('writes one plain line for each step that is done, with its duration', async (t) => {
  const { out, text } = createOutput(false)
  let now = 0
  const progress = createProgress(out, () => now)

  await progress.step('postgres', async () => { now += 1234 })
  progress.print('a line of its own')
  await t.rejects(progress.step('clickhouse', async () => { throw new Error('no') }))

  t.equal(text(), `  ${'postgres'.padEnd(34)}   1.2 s\na line of its own\n`)
})

t.test('names the running step on a terminal', async (t) => {
  const { out, text } = createOutput(true)
  const progress = createProgress(out, () => 0)

  await Promise.all([progress.step('one', async () => {}), progress.step('two', async () => {})])

  t.match(text(), '... one, two')
  t.notMatch(text().split('\n').at(-1), '...')
})

function createOutput (isTTY: boolean) {
  let written = ''
  return { out: { isTTY, write (text: string) { written += text } }, text: () => written }
}

t.test('a file that gets keys is for its owner alone; nothing else is changed', async (t) => {
  const file = path.join(t.testdir({ 'start.log': '' }), 'start.log')
  chmodSync(file, 0o644)
  const fd = openSync(file, 'a')
  t.teardown(() => closeSync(fd))

  t.match(keepOutputToOwner(fd), /only its owner can read it now/)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal(keepOutputToOwner(fd), '', 'nothing is said when it is so already')

  const other = openSync('/dev/null', 'a')
  t.teardown(() => closeSync(other))
  const mode = statSync('/dev/null').mode
  t.equal(keepOutputToOwner(other), '')
  t.equal(statSync('/dev/null').mode, mode)
})
