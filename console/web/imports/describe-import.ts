/** What an import is asked for, and how one stands, in words. */
import type { Schema } from '../../api-types.ts'
import { formatCount } from '../format.ts'

export const SOURCES = { posthog: 'PostHog', mixpanel: 'Mixpanel', amplitude: 'Amplitude', files: 'CSV, JSON Lines or Parquet' }

/** Fields of an event that a column of any file may be. */
export const FIELDS = ['event', 'timestamp', 'distinct_id', 'uuid', 'properties'] as const

/** Input for an import: the name of a file on the server, empty for all; events per second, of which 0 is no limit. */
export const NO_PLAN = { source: 'posthog', name: '', persons: 'export', timezone: '', columns: {} as Partial<Record<string, string>>, rate: '5000' }

/** The request that runs it on the server. */
export function buildRun (plan: typeof NO_PLAN, isDryRun: boolean): object {
  const { source, name, persons, timezone, columns, rate } = plan
  const own: Partial<Record<string, object>> = {
    posthog: { persons },
    mixpanel: timezone.trim() === '' ? {} : { timezone: timezone.trim() },
    files: { map: Object.fromEntries(Object.entries(columns).filter(([, column]) => column !== '')) }
  }
  return { source, ...name !== '' && { name }, dry_run: isDryRun, events_per_second: Number(rate), ...own[source] }
}

const RESUME = 'Run the same command again in the same folder, or start it here again if it ran on the server: it goes on from there, and so does this report.'

/** @returns its state, the class of a tag for it, and what happens or is to be done next. */
export function describe (
  { state, mode, error, is_silent: isSilent, stop_requested_at: stop, ended_at: ended, progress: { rejected } }: Schema<'Import'>
): { text: string, style: string, next: string } {
  if (ended === null && isSilent) return { text: 'silent', style: 'replaced', next: `No report for more than a minute: it was stopped or killed, or cannot reach Millrace. If it is no longer running: ${RESUME}` }
  if (ended === null && stop !== null) return { text: 'stopping', style: 'on', next: 'It ends at its next report, within seconds.' }
  const dry = mode === 'dry_run' ? ' Nothing was sent: run the command without --dry-run, or start the import on the server.' : ''
  switch (state) {
    case 'running': return { text: 'running', style: 'on', next: 'Reading the files.' }
    case 'proving': return { text: 'proving', style: 'on', next: 'All files are read. Waiting until every event is stored, then comparing.' }
    case 'interrupted': return error === 'MILLRACE_IMPORT_STOPPED'
      ? { text: 'stopped', style: 'off', next: RESUME }
      : error === 'MILLRACE_IMPORT_ENDED' ? { text: 'ended', style: 'off', next: `Its process ended without a report: it was killed, its key was revoked, or the API that ran it was stopped. ${RESUME}` } : { text: 'failed', style: 'refused', next: `The command shows the error. Fix it. ${RESUME}` }
    case 'incomplete': return {
      text: 'incomplete',
      style: 'refused',
      next: mode === 'dry_run' ? 'Some files cannot be read completely, or contain no events of this source. Fix that and start again.' : `Some files were not read completely or contain no events of this source, or events are missing or changed (see their receipts). Fix that. ${RESUME}`
    }
    case 'complete': return { text: 'complete', style: 'on', next: dry === '' ? 'Every event is stored as in the files.' : `Every row can be sent.${dry}` }
    case 'complete_with_differences': return rejected > 0
      ? { text: `complete, ${formatCount(rejected)} rejected`, style: 'replaced', next: `rejected.ndjson has each rejected row with its reason. It is where the command ran, in millrace-import-… (on the server, .millrace-import-… beside the files) or in the --state folder.${dry}` }
      : { text: 'complete, with differences', style: 'replaced', next: `Some events differ from the files, because of a rule or because a text or number cannot be stored. See their receipts.${dry}` }
  }
}
