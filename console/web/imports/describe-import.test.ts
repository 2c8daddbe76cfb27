import t from 'tap'
import { buildRun, describe, NO_PLAN } from './describe-import.ts'

t.test('the server is asked for what belongs to the source', (t) => {
  const plan = { ...NO_PLAN, name: 'export', persons: 'events', timezone: ' Europe/Berlin ', rate: '0', columns: { event: 'name', uuid: '' } }
  const of = (changes: object): object => buildRun({ ...plan, ...changes }, true)
  const shared = { name: 'export', dry_run: true, events_per_second: 0 }
  t.same(of({}), { ...shared, source: 'posthog', persons: 'events' })
  t.same(of({ source: 'mixpanel' }), { ...shared, source: 'mixpanel', timezone: 'Europe/Berlin' })
  t.same(of({ source: 'mixpanel', timezone: ' ' }), { ...shared, source: 'mixpanel' })
  t.same(of({ source: 'amplitude' }), { ...shared, source: 'amplitude' })
  t.same(of({ source: 'files' }), { ...shared, source: 'files', map: { event: 'name' } })
  t.end()
})

t.test('each state has a word, and what to do about it', (t) => {
  const running = {
    state: 'running', mode: 'import', error: null, is_silent: false, stop_requested_at: null, ended_at: null, progress: { rejected: 0 }
  } as unknown as Parameters<typeof describe>[0]
  const ended = { ended_at: '2026-01-02T00:00:00Z', stop_requested_at: '2026-01-01T00:00:00Z' }
  for (const [changes, text, next] of [
    [{}, 'running', /Reading the files/], [{ state: 'proving' }, 'proving', /comparing/],
    [{ stop_requested_at: '2026-01-01T00:00:00Z' }, 'stopping', /next report/],
    [{ is_silent: true, stop_requested_at: '2026-01-01T00:00:00Z' }, 'silent', /same command again/],
    [{ ...ended, state: 'interrupted', error: 'MILLRACE_IMPORT_STOPPED' }, 'stopped', /^Run the same command again/],
    [{ ...ended, state: 'interrupted', error: 'MILLRACE_IMPORT_ENDED' }, 'ended', /^Its process ended without a report/],
    [{ ...ended, state: 'incomplete', mode: 'dry_run' }, 'incomplete', /^Some files cannot be read/],
    [{ ...ended, state: 'interrupted', error: null }, 'failed', /^The command shows/],
    [{ ...ended, state: 'incomplete' }, 'incomplete', /see their receipts.*same command again/],
    [{ ...ended, state: 'complete' }, 'complete', /^Every event is stored/],
    [{ ...ended, state: 'complete', mode: 'dry_run' }, 'complete', /^Every row can be sent. Nothing was sent/],
    [{ ...ended, state: 'complete_with_differences' }, 'complete, with differences', /receipts/],
    [{ ...ended, state: 'complete_with_differences', progress: { rejected: 1 } }, 'complete, 1 rejected', /rejected\.ndjson/],
    [{ ...ended, state: 'complete_with_differences', mode: 'dry_run', progress: { rejected: 1 } }, 'complete, 1 rejected', /without --dry-run/]
  ] as const) {
    const found = describe({ ...running, ...changes } as typeof running)
    t.equal(found.text, text)
    t.match(found.next, next, text)
  }
  t.end()
})
