import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { linkTo, navigate } from '../router.ts'
import { currentSession, may, resumeSession, type Session } from '../session.ts'
import { Table } from '../states.tsx'

/** The projects of the installation, and a new one. */
export function InstallationScreen () {
  const [open, setOpen] = useState<Session['projects'][number] | 'new'>()
  return (
    <section>
      <h1>Projects</h1>
      {may('project:write') && <div class='toolbar'><button type='button' class='primary' onClick={() => setOpen('new')}>New project …</button></div>}
      <Table label='Projects' head={['Project', '#Id', 'Time zone', '-Actions']}>
        {currentSession().projects.map((project) => (
          <tr key={project.id}>
            <td class='wide'>{showText(project.name)}</td>
            <td class='number'>{project.id}</td>
            <td>{project.timezone}</td>
            <td>
              <a {...linkTo(`/projects/${project.id}/connect`)}>Connect<span class='hidden'> {showText(project.name, 60)}</span></a>{' '}
              {may('project:write') && <button type='button' class='quiet' onClick={() => setOpen(project)}>Change …<span class='hidden'> {showText(project.name, 60)}</span></button>}
            </td>
          </tr>
        ))}
      </Table>
      {open !== undefined && <ProjectDialog project={open === 'new' ? undefined : open} onClose={() => setOpen(undefined)} />}
    </section>
  )
}

/** @param props.project  Undefined: a new one. */
function ProjectDialog ({ project, onClose }: { project: Session['projects'][number] | undefined, onClose: () => void }) {
  const [name, setName] = useState(project?.name ?? '')
  const [timezone, setTimezone] = useState(project?.timezone ?? 'UTC')
  const save = async (): Promise<void> => {
    const { id } = await request<{ id: number }>(`/api/projects/${project?.id ?? ''}`, { method: project === undefined ? 'POST' : 'PATCH', body: { name, timezone } })
    // The session lists the projects.
    await resumeSession()
    if (project === undefined) navigate(`/projects/${id}/connect`)
  }
  return (
    <FormDialog title={project === undefined ? 'New project' : `Change ${showText(project.name, 60)}`} action={project === undefined ? 'Create' : 'Save'} isReady={name !== ''} onClose={onClose} onConfirm={save}>
      <label>Name <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <label>
        Time zone of reports <input required maxLength={100} value={timezone} onInput={(event) => setTimezone(event.currentTarget.value)} />
      </label>
    </FormDialog>
  )
}
