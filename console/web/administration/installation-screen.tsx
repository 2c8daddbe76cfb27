import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import type { Answer } from '../../../schema/api-types.ts'
import { FormDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate } from '../router.ts'
import { currentSession, may, resumeSession } from '../session.ts'
import { Show, Table } from '../states.tsx'

type ShownSettings = Answer<'/api/settings'>

/** The projects of the installation, and the settings in effect. */
export function InstallationScreen () {
  const [isCreating, setCreating] = useState(false)
  return (
    <section>
      <h1>Projects and settings</h1>
      {may('project:write') && <div class='toolbar'><button type='button' class='primary' onClick={() => setCreating(true)}>New project …</button></div>}
      <Table label='Projects' head={['Project', '#Id', '-Actions']}>
        {currentSession().projects.map(({ id, name }) => (
          <tr key={id}>
            <td class='wide'>{showText(name)}</td>
            <td class='number'>{id}</td>
            <td><a {...linkTo(`/projects/${id}/connect`)}>Connect<span class='hidden'> {showText(name, 60)}</span></a></td>
          </tr>
        ))}
      </Table>
      <Settings />
      {isCreating && <NewProjectDialog onClose={() => setCreating(false)} />}
    </section>
  )
}

function Settings () {
  const [search, setSearch] = useState('')
  const [isChangedOnly, setChangedOnly] = useState(false)
  const settings = useLoaded('settings', async (signal) => await request<ShownSettings>('/api/settings', { signal }))
  const words = search.toLowerCase().split(/\s+/)
  const isShown = ({ name, description, source }: ShownSettings['results'][number]): boolean =>
    (!isChangedOnly || source === 'environment') && words.every((word) => `${name} ${description}`.toLowerCase().includes(word))
  return (
    <>
      <h2>Settings in effect</h2>
      <p class='hint'>As the API process has them; the other processes read their own environment. Secrets are masked. Change them there, and restart.</p>
      <div class='toolbar'>
        <input type='search' aria-label='Search settings' placeholder='Search settings' value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <label class='choice'>
          <input type='checkbox' checked={isChangedOnly} onChange={(event) => setChangedOnly(event.currentTarget.checked)} /> only those that are set
        </label>
      </div>
      <Show of={settings} what='Settings'>
        {({ results }) => (
          <Table label='Settings' class='settings' head={['Name', 'Value', 'From', 'What it is']}>
            {results.filter(isShown).map(({ name, value, source, description }) => (
              <tr key={name}>
                <td><code>{name}</code></td>
                <td class='value'>{value === '' ? <span class='hint'>empty</span> : <code>{showText(value)}</code>}</td>
                <td>{source}</td>
                <td class='wide hint'>{description}</td>
              </tr>
            ))}
          </Table>
        )}
      </Show>
    </>
  )
}

function NewProjectDialog ({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [timezone, setTimezone] = useState('UTC')
  const create = async (): Promise<void> => {
    const { id } = await request<{ id: number }>('/api/projects/', { method: 'POST', body: { name, timezone } })
    // The session lists the projects.
    await resumeSession()
    navigate(`/projects/${id}/connect`)
  }
  return (
    <FormDialog title='New project' action='Create' isReady={name !== ''} onClose={onClose} onConfirm={create}>
      <label>Name <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <label>
        Time zone, in which days begin
        <input required maxLength={100} value={timezone} onInput={(event) => setTimezone(event.currentTarget.value)} />
      </label>
    </FormDialog>
  )
}
