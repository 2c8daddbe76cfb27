import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { linkTo, navigate } from '../router.ts'
import { currentSession, may, resumeSession } from '../session.ts'
import { Table } from '../states.tsx'

/** The projects of the installation, and a new one. */
export function InstallationScreen () {
  const [isCreating, setCreating] = useState(false)
  return (
    <section>
      <h1>Projects</h1>
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
      {isCreating && <NewProjectDialog onClose={() => setCreating(false)} />}
    </section>
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
