import { useState } from 'preact/hooks'
import type { Answer, Schema } from '../../api-types.ts'
import { ApiError, type Page, request } from '../api-client.ts'
import { Ask, Copyable, DeleteDialog, FormDialog, TextFields } from '../confirm.tsx'
import { showText } from '../format.ts'
import { ListScreen, RowAction, searched } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { useList } from '../paging.tsx'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Ago, Checkbox, Dialog, OnOff, Select, Show } from '../states.tsx'

type Target = Schema<'Target'>

/** Queues move: they are asked for again after so long, in milliseconds. */
const EVERY_MS = 5000

type Open = { what: 'edit', of?: Target } | { what: 'test' | 'secret' | 'delete', of: Target }

/** Where events, alerts and boards of the project are sent, and how that goes. */
export function TargetsScreen () {
  const path = `/api/projects/${projectId.value}/targets/`
  const targets = useList<Target>(path, { search: searched() }, { everyMs: EVERY_MS })
  const alerts = useLoaded(`alerts ${path}`, async (signal) => may('query:read')
    ? (await request<Page<Schema<'Alert'>>>(`/api/projects/${projectId.value}/alerts/`, { query: { limit: 1000 }, signal })).results
    : [])
  const [open, setOpen] = useState<Open>()
  const [notice, setNotice] = useState('')
  const mayWrite = may('project:write')
  const shared = { onClose: () => setOpen(undefined), onDone: targets.reload }
  const act = (what: 'test' | 'secret' | 'delete' | 'edit', of: Target) => (): void => { setNotice(''); setOpen({ what, of }) }
  return (
    <ListScreen
      title='Targets' of={targets} keyOf={({ id }) => id} none='There are no targets yet.' unfound='No target has this name.'
      hint='Slack, webhooks and mail addresses. Each has a queue of its own, and a failed delivery is retried for a day.'
      tools={
        <>
          {mayWrite && <button type='button' class='primary' onClick={() => setOpen({ what: 'edit' })}>New target …</button>}
          <span role='status' class='hint'>{notice}</span>
        </>
      }
      columns={[
        ['Target', ({ name, kind, url }) => <>{showText(name, 80)}<div class='hint'>{kind} {showText(url.replace(/^mailto:/, ''), 200)}</div></>, 'wide'],
        ['On', ({ enabled }) => <OnOff isOn={enabled} />],
        ['#Waiting', ({ waiting }) => waiting],
        ['Delivered', ({ last_delivered_at: at }) => <Ago at={at} />],
        ['Failing', (target) => <Failing of={target} />],
        ['Gets', (target) => <Uses of={target} alerts={alerts.value ?? []} />, 'wide'],
        mayWrite && ['-Actions', (target) => (
          <>
            {target.enabled && <RowAction of={target.name} title='Test' onPress={act('test', target)} />}{' '}
            <RowAction of={target.name} title='Edit' onPress={act('edit', target)} />{' '}
            {target.kind === 'webhook' && <RowAction of={target.name} title='Secret' onPress={act('secret', target)} />}{' '}
            <RowAction of={target.name} title='Delete' onPress={act('delete', target)} />
          </>
        )]
      ]}
    >
      {open?.what === 'edit' && <EditTarget path={open.of === undefined ? path : `${path}${open.of.id}/`} target={open.of} {...shared} />}
      {open?.what === 'secret' && <SecretDialog path={`${path}${open.of.id}/secret/`} name={open.of.name} onClose={shared.onClose} />}
      {open?.what === 'delete' && (
        <DeleteDialog name={open.of.name} path={`${path}${open.of.id}/`} {...shared}>Its queued notifications are lost. Send its alerts elsewhere first.</DeleteDialog>
      )}
      {open?.what === 'test' && (
        <Ask
          title={`Test ${showText(open.of.name, 80)}`} action='Send' onClose={shared.onClose}
          onConfirm={async () => await test(`${path}${open.of.id}/test/`)}
          onDone={() => { setNotice(`Delivered to ${showText(open.of.name, 80)}.`); targets.reload() }}
        >
          <p>Sends a test message after everything queued, and shows within 12 seconds whether it was delivered.</p>
        </Ask>
      )}
    </ListScreen>
  )
}

async function test (path: string): Promise<void> {
  const { delivered, error } = await request<Answer<'/api/projects/{project_id}/targets/{id}/test', 'post'>>(path, { method: 'POST' })
  if (!delivered) throw new ApiError(0, 'not_delivered', `Not delivered: ${error ?? 'the reason is unknown'}.`)
}

function Failing ({ of: { failing_since: since, last_error: error } }: { of: Target }) {
  if (since === null) return <>no</>
  return <><Ago at={since} /> <div class='error'>{showText(error ?? '', 300)}</div></>
}

/** What is sent there: alerts and boards, and events by name. */
function Uses ({ of: { id, sent_events: events }, alerts }: { of: Target, alerts: readonly Schema<'Alert'>[] }) {
  const own = alerts.filter(({ targets }) => targets.includes(id))
  if (events.length + own.length === 0) return <span class='hint'>nothing yet</span>
  return (
    <>
      {own.map(({ id: alert, name }) => <div key={alert}><a {...linkTo(`/projects/${projectId.value}/alerts/${alert}`)}>{showText(name, 80)}</a></div>)}
      {events.length > 0 && <div>{showText(events.join(', '), 200)}</div>}
    </>
  )
}

const NEW: Pick<Target, 'name' | 'description' | 'kind' | 'url' | 'events' | 'each_event' | 'enabled'> = {
  name: '', description: '', kind: 'slack', url: '', events: [], each_event: false, enabled: true
}

function EditTarget ({ path, target, ...dialog }: { path: string, target?: Target | undefined, onClose: () => void, onDone: () => void }) {
  const [draft, setDraft] = useState({ ...NEW, ...target })
  const [url, setUrl] = useState(draft.url.replace(/^mailto:/, ''))
  const [events, setEvents] = useState(draft.events.join('\n'))
  const set = (fields: object): void => setDraft({ ...draft, ...fields })
  const { name, description, kind, each_event: isEach, enabled } = draft
  const isMail = kind === 'mail'
  const names = events.split('\n').map((name) => name.trim()).filter((name) => name !== '')
  const save = async () => await request(path, {
    method: target === undefined ? 'POST' : 'PATCH',
    body: { ...draft, url: isMail ? `mailto:${url.trim()}` : url.trim(), events: isMail ? [] : names, each_event: isEach && !isMail }
  })
  return (
    <FormDialog
      title={target === undefined ? 'New target' : `Edit ${showText(target.name, 80)}`} action={target === undefined ? 'Create' : 'Save'}
      isReady={name.trim() !== '' && url.trim() !== ''} onConfirm={save} {...dialog}
    >
      <TextFields texts={{ name, description }} onChange={set} />
      <Select label='Kind' value={kind} options={[['slack', 'Slack'], ['webhook', 'Webhook'], ['mail', 'Mail']]} onChange={(chosen) => { set({ kind: chosen }); setUrl('') }} />
      <label>{isMail ? 'Mail address' : kind === 'slack' ? 'URL of the incoming webhook' : 'URL'} <input value={url} maxLength={2000} onInput={(event) => setUrl(event.currentTarget.value)} /></label>
      {target !== undefined && !isMail && <p class='hint'>The rest of the URL is hidden, and kept unless you enter another one.</p>}
      {!isMail && (
        <>
          <label>Events to send, one name a line <textarea rows={3} value={events} onInput={(event) => setEvents(event.currentTarget.value)} /></label>
          <Checkbox label='Send each event, not one summary per minute' isOn={isEach} onChange={(each) => set({ each_event: each })} />
        </>
      )}
      <Checkbox label='On' isOn={enabled} onChange={(isOn) => set({ enabled: isOn })} />
    </FormDialog>
  )
}

function SecretDialog ({ path, name, onClose }: { path: string, name: string, onClose: () => void }) {
  const shown = useLoaded(path, async (signal) =>
    await request<Answer<'/api/projects/{project_id}/targets/{id}/secret', 'post'>>(path, { method: 'POST', signal }))
  return (
    <Dialog title={`Signing secret of ${showText(name, 80)}`} onClose={onClose}>
      <p class='hint'>Receivers verify webhooks with it and any Standard Webhooks library.</p>
      <Show of={shown} what='The secret'>{({ secret }) => <Copyable text={secret} label='Signing secret' />}</Show>
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
