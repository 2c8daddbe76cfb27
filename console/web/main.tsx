import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError } from './api-client.ts'
import { LeaveDialog } from './frame/unsaved.tsx'
import { linkRefusal, login, resumeSession, session, sessionFailure } from './session.ts'
import { path } from './router.ts'
import { SHARED } from './screens.ts'
import { LazyScreen, Shell } from './shell.tsx'
import { Failed } from './states.tsx'
import './style.css'

/** Between two tries to find out who is logged in, in milliseconds. */
const AGAIN_MS = 3000

/** Whether this is the board of a link, which nobody logs in for. */
const isShared = path.value[0] === 'shared'

/** The console: the login until somebody is logged in, then the shell with its screens. */
function Console () {
  if (isShared) return <main class='shared'><LazyScreen screen={SHARED} /></main>
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
      <p class='hint'>Your login cannot be checked at the moment. Retrying every three seconds.</p>
    </main>
  )
}

/** Asks for a personal API key, once: a session follows. */
function Login () {
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const refusal = error ?? linkRefusal.value

  async function submit (event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const key = String(new FormData(event.currentTarget as HTMLFormElement).get('key') ?? '')
    setBusy(true)
    try {
      await login({ personal_api_key: key })
    } catch (cause) {
      setError(cause instanceof ApiError ? cause.message : String(cause))
      setBusy(false)
    }
  }

  return (
    <main class='login'>
      <h1>Millrace</h1>
      <form onSubmit={(event) => { void submit(event) }}>
        <label for='key'>Personal API key</label>
        <input id='key' name='key' type='password' required autofocus autocomplete='off' placeholder='phx_…' aria-describedby='key-help' />
        <p id='key-help' class='hint'>
          Printed by <code>npm start</code>, or created with <code>npx millrace keys create</code>. The key determines your rights.
        </p>
        {refusal !== undefined && <p role='alert' class='error'>{refusal}</p>}
        <button type='submit' class='primary' disabled={isBusy}>Log in</button>
      </form>
    </main>
  )
}

render(<Console />, document.getElementById('app')!)
if (!isShared) void resumeSession()
