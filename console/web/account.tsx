import { useState } from 'preact/hooks'
import type { Session } from '../api-types.ts'
import { request } from './api-client.ts'
import { FormDialog } from './confirm.tsx'
import { PASSWORD_CHARACTERS } from './session.ts'
import { Dialog } from './states.tsx'

const WITHOUT_PASSWORD = {
  key: 'You are logged in with a personal API key. To change a password, log in with it.',
  provider: 'You log in at your identity provider, so you have no password here.'
}

/** Who is logged in, and a new password. */
export function Account ({ session: { email, login }, onClose }: { session: Session, onClose: () => void }) {
  const [current, setCurrent] = useState('')
  const [password, setPassword] = useState('')
  const user = <label>E-mail <input readOnly autocomplete='username' value={email} /></label>
  if (login !== 'password') return <Dialog title='Your account' onClose={onClose}>{user}<p>{WITHOUT_PASSWORD[login]}</p></Dialog>
  return (
    <FormDialog
      title='Your account' action='Change the password' isReady={current !== '' && password.length >= PASSWORD_CHARACTERS} onClose={onClose}
      onConfirm={async () => await request('/api/users/@me/password', { method: 'POST', body: { current_password: current, password } })}
    >
      {user}
      <label>Present password <input type='password' autocomplete='current-password' value={current} onInput={(event) => setCurrent(event.currentTarget.value)} /></label>
      <label>New password <input type='password' autocomplete='new-password' value={password} onInput={(event) => setPassword(event.currentTarget.value)} /></label>
      <p class='hint'>At least {PASSWORD_CHARACTERS} characters, five of them different. You are logged out everywhere else; your keys stay.</p>
    </FormDialog>
  )
}
