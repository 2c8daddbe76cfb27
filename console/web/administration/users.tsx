import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { formatCount, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { currentSession, may } from '../session.ts'
import { Show, Table } from '../states.tsx'

interface User { id: number, email: string, first_name: string, keys: number }

/** The users who own keys. */
export function Users () {
  const [isCreating, setCreating] = useState(false)
  const users = useLoaded('users', async (signal) => await request<{ results: User[] }>('/api/users/', { signal }))
  const mayCreate = may('user:write') && currentSession().all_projects
  return (
    <>
      <h2>Users</h2>
      {mayCreate && <div class='toolbar'><button type='button' onClick={() => setCreating(true)}>New user …</button></div>}
      <Show of={users} what='Users'>
        {({ results }) => (
          <Table label='Users' head={['E-mail', 'First name', '#Usable keys']}>
            {results.map(({ id, email, first_name: name, keys }) => (
              <tr key={id}><td class='wide'>{showText(email)}</td><td class='wide'>{showText(name)}</td><td class='number'>{formatCount(keys)}</td></tr>
            ))}
          </Table>
        )}
      </Show>
      {isCreating && <NewUserDialog onClose={() => setCreating(false)} onDone={users.reload} />}
    </>
  )
}

function NewUserDialog ({ onClose, onDone }: { onClose: () => void, onDone: () => void }) {
  const [email, setEmail] = useState('')
  const [name, setName] = useState('')
  const create = async (): Promise<void> => {
    await request('/api/users/', { method: 'POST', body: { email, first_name: name } })
    onDone()
  }
  return (
    <FormDialog title='New user' action='Create' isReady={email !== ''} onClose={onClose} onConfirm={create}>
      <p class='hint'>Nothing is mailed: make a key for the user with <code>npx millrace keys create --user</code>.</p>
      <label>E-mail <input required type='email' maxLength={254} value={email} onInput={(event) => setEmail(event.currentTarget.value)} /></label>
      <label>First name <input maxLength={150} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
    </FormDialog>
  )
}
