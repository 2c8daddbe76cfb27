import { render } from 'preact'
import { Login } from './login.tsx'
import { resumeSession, session } from './session.ts'
import { Shell } from './shell.tsx'
import './style.css'

/** The console: the login until somebody is logged in, then the shell with its screens. */
function Console () {
  if (session.value === undefined) return null
  return session.value === null ? <Login /> : <Shell session={session.value} />
}

render(<Console />, document.getElementById('app')!)
void resumeSession()
