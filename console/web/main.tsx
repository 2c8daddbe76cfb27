import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import type { ApiError } from './api-client.ts'
import { LeaveDialog } from './drafts/unsaved.tsx'
import { Login } from './login.tsx'
import { resumeSession, session, sessionFailure } from './session.ts'
import { Shell } from './shell.tsx'
import { Failed } from './states.tsx'
import './style.css'

/** Between two tries to find out who is logged in, in milliseconds. */
const AGAIN_MS = 3000

/** The console: the login until somebody is logged in, then the shell with its screens. */
function Console () {
  if (session.value === null) return <Login />
  if (session.value !== undefined) return <><Shell session={session.value} /><LeaveDialog /></>
  return sessionFailure.value === undefined ? null : <Unreachable error={sessionFailure.value} />
}

/** Nobody is logged out by a server that is away: it is asked again until it answers. */
function Unreachable ({ error }: { error: ApiError }) {
  useEffect(() => {
    const timer = setTimeout(() => { void resumeSession() }, AGAIN_MS)
    return () => clearTimeout(timer)
  }, [error])
  return (
    <main>
      <h1>Millrace</h1>
      <Failed error={error} onRetry={() => { void resumeSession() }} />
      <p class='hint'>Who is logged in is not known at the moment. It is asked again every three seconds.</p>
    </main>
  )
}

render(<Console />, document.getElementById('app')!)
void resumeSession()
