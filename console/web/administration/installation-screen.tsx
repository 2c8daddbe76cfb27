import { useState } from 'preact/hooks'
import type { Session } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { linkTo, navigate } from '../router.ts'
import { currentSession, may, resumeSession } from '../session.ts'

export function InstallationScreen () {
  const [open, setOpen] = useState<Session['projects'][number] | 'new'>()
  return (
    <section>
      <h1>Projects</h1>
      {may('project:write') && <div class='toolbar'><button type='button' class='primary' onClick={() => setOpen('new')}>New project …</button></div>}
      <Rows
        label='Projects' of={currentSession().projects} keyOf={({ id }) => id} columns={[
          ['Project', ({ name }) => showText(name), 'wide'], ['#Id', ({ id }) => String(id)], ['Time zone', ({ timezone }) => timezone],
          ['-Actions', (project) => (
            <>
              <a {...linkTo(`/projects/${project.id}/connect`)}>Connect<span class='hidden'> {showText(project.name, 60)}</span></a>{' '}
              {may('project:write') && <button type='button' class='quiet' onClick={() => setOpen(project)}>Change …<span class='hidden'> {showText(project.name, 60)}</span></button>}
            </>
          )]
        ]}
      />
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
